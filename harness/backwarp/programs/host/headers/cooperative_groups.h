// Groups of threads as types: what kernels do with them is compiled for the device.
#pragma once
namespace cooperative_groups {
struct thread_group {};
struct thread_block : thread_group {};
struct grid_group : thread_group {};
struct coalesced_group : thread_group {};
struct cluster_group : thread_group {};
template <unsigned N, class P = void> struct thread_block_tile : thread_group {};
template <class T> struct plus {};
template <class T> struct less {};
template <class T> struct greater {};
}
