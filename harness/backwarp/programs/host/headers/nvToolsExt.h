// Ranges for NVIDIA's profilers: nothing here looks at them.
#pragma once
#include <cstdint>
typedef uint64_t nvtxRangeId_t;
struct nvtxEventAttributes_t { uint16_t version, size; uint32_t category; int32_t colorType; uint32_t color; int32_t payloadType, reserved0; uint64_t payload; int32_t messageType; union { const char* ascii; } message; };
enum { NVTX_VERSION = 2, NVTX_EVENT_ATTRIB_STRUCT_SIZE = sizeof(nvtxEventAttributes_t), NVTX_COLOR_ARGB = 1, NVTX_MESSAGE_TYPE_ASCII = 1 };
static inline int nvtxRangePushA(const char*) { return 0; }
static inline int nvtxRangePush(const char*) { return 0; }
static inline int nvtxRangePushEx(const nvtxEventAttributes_t*) { return 0; }
static inline int nvtxRangePop() { return 0; }
static inline nvtxRangeId_t nvtxRangeStartA(const char*) { return 0; }
static inline nvtxRangeId_t nvtxRangeStartEx(const nvtxEventAttributes_t*) { return 0; }
static inline void nvtxRangeEnd(nvtxRangeId_t) {}
static inline void nvtxMarkA(const char*) {}
