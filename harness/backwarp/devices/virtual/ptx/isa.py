"""What an opcode is: one row per family of spellings. All code asks `Instruction.op`.

A row has spellings, operands and facts, in the manual's notation and with its sections. In a spelling,
`{...}` is optional, `(a|b)` a choice, `<int>` a class of modifiers, and `!` marks the operation within the
family (`Op.operation`). A row may continue on a line that is indented further. Among operands,

    d, a, b, c    values of the instruction's type, the last of its modifiers that is one; d is written
    a:u32         a value of another type. 2t: twice as wide as the instruction's; t2: the last type but one
    d|p, d{|p}    d, and a predicate that is written too, or may be
    {, c}         an operand that may be left out; after a `{.<bool>}`, `{.<hint>}` or `{.<multicast>}`, there where the
                  modifier is
    [a], [m]      an address; an mbarrier's. Where the spelling says .v2 or .v4, the other operand is a vector
    [t]           coordinates in a texture, a surface or a tensor
    g             a gradient, of as many components
    a:tile        a matrix: the descriptor of one in shared memory, or a vector of registers
    o             offsets of a pixel in a convolution's filter, one for each of its axes
    n:imm, label, table         what they say; `...`: see `Instruction.called`, or the marks

The facts:

    load store atomic reduction copy    what it does to memory; where, and in what order, its modifiers say
    branch switch return exit trap call where control goes; all but a call end a basic block
    block warp matrix group cluster     who takes part in a collective: `matrix` is a warp, with matrices; a group four of them
    async       it is about copies under way, or the barriers in memory that count their arrival
    bulk        of many bytes, or of a tensor's
    waits       through it a thread can wait for what others do to memory
    orders      it orders accesses of the thread before and after it
    texture surface     it reads a texture object; it reads or writes a surface object
    own         its result is about the thread that executes it, or its block
    nothing     nothing of it is carried out
    wide        a register may be wider than its operand's type (9.4.1)
    takes-carry leaves-carry            CC.CF
    mark        it is the compiler's own: no program may contain it
    moves=ab    it only moves the bits of these operands; the others say where to
    address=    how an address is computed, if the result is one: `a|b` one of the two, `c+a*b` from c; `a?` part of a
    bitwise     each bit of the result is computed from the same bits of the operands
    chooses     its last operand says which of the others the result is
    everything else is what it counts as (`minmax`, of floats, is no operation of `explain/metrics`)

Source: PTX ISA 8.7, section 9.7, for compute capability 8.0 and, where a file needs that, 9.0.
"""

from __future__ import annotations

CLASSES = {
    "int": "u16|s16|u32|s32|u64|s64",
    "int32": "u32|s32",
    "int32_64": "u32|s32|u64|s64",
    "int16_32": "u16|s16|u32|s32",
    "unsigned": "u16|u32|u64",
    "signed": "s16|s32|s64",
    "bits": "b16|b32|b64",
    "bits32": "b32|b64",
    "float": "f32|f64",
    "half": "f16|f16x2",
    "bfloat": "bf16|bf16x2",
    "integer": "u8|s8|u16|s16|u32|s32|u64|s64",
    "data": "b8|b16|b32|b64|u8|s8|u16|s16|u32|s32|u64|s64|f32|f64",
    "directed": "rz|rm|rp",
    "round": "rn|rz|rm|rp",
    "round_to_integer": "rni|rzi|rmi|rpi",
    "compare": "eq|ne|lt|le|gt|ge",
    "unsigned_compare": "lo|ls|hi|hs",
    "unordered": "equ|neu|ltu|leu|gtu|geu|num|nan",
    "bool": "and|or|xor",
    "space": "global|shared|shared::cta|shared::cluster|local|const|param|param::entry|param::func",
    "scope": "cta|cluster|gpu|sys",
    # ptxas takes it before the space, after it, and after the operation, where CUDA's own headers have it
    "order": "{.(relaxed|acquire|release|acq_rel)}{.(cta|cluster|gpu|sys)}",
    "load_cache": "ca|cg|cs|lu|cv",
    "store_cache": "wb|cg|cs|wt",
    "evict": "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate",
    "priority": "L2::evict_first|L2::evict_last|L2::evict_normal|L2::evict_unchanged",
    "prefetch": "L2::64B|L2::128B|L2::256B",
    "hint": "L2::cache_hint",
    "multicast": "multicast::cluster",
    "rank": "1d|2d|3d|4d|5d",
    "to_tile": "shared::cluster|shared::cta",
    "counted": "mbarrier::complete_tx::bytes",
    "sent": "b32|b64|u32|s32|u64|s64|f32|f64",
    "stored": "tile|im2col_no_offs",
    "update": "add|min|max|inc|dec|and|or|xor",
    "vec": "v2|v4",
    "byte": "s8|u8",
    "flat": "1d|2d|3d|a1d|a2d",
    "geometry": "1d|2d|3d|a1d|a2d|cube|acube",
    "boundary": "trap|clamp|zero",
    "wmma": "m16n16k16|m32n8k16|m8n32k16",
    "wgmma16": "|".join(f"m64n{n}k16" for n in range(8, 257, 8)),
    "wgmma8": "|".join(f"m64n{n}k8" for n in range(8, 257, 8)),
    "wgmma32": "|".join(f"m64n{n}k32" for n in range(8, 257, 8)),
    "wgmma_int": "|".join(f"m64n{n}k32" for n in (8, 16, 24, *range(32, 257, 16))),
    "float8": "e4m3|e5m2",
    "mma8": "m8n8k16|m16n8k16|m16n8k32",
    "shared": "shared|shared::cta",
    "anywhere": "shared|shared::cta|shared::cluster",
    "at": "global|shared|shared::cta|shared::cluster",
    "release": "release.cta|relaxed.cta|release.cluster|relaxed.cluster",
    "acquire": "acquire.cta|relaxed.cta|acquire.cluster|relaxed.cluster",
}

#: rows of the manual's sections, each indented below its section
TABLE = """
9.7.1 Integer arithmetic
  add.<int>                                                d, a, b                      integer address=a+b
  sub.<int>                                                d, a, b                      integer address=a-b
  (add|sub).sat.s32                                        d, a, b                      integer
  mul.(lo|hi).<int>                                        d, a, b                      integer
  mul.wide.<int16_32>                                      d:2t, a, b                   integer
  mad.lo.<int>                                             d, a, b, c              integer address=c+a*b
  mad.hi.<int>                                             d, a, b, c                   integer
  mad.hi.sat.s32                                           d, a, b, c                   integer
  mad.wide.<int16_32>                                      d:2t, a, b, c:2t        integer address=c+a*b
  mul24.(lo|hi).<int32>                                    d, a, b                      integer
  mad24.(lo|hi).<int32>                                    d, a, b, c                   integer
  mad24.hi.sat.s32                                         d, a, b, c                   integer
  sad.<int>                                                d, a, b, c                   integer
  (div|rem).<int>                                          d, a, b                      division
  (abs|neg).<signed>                                       d, a                         integer
  (min|max).<int>                                          d, a, b                      integer address=a|b
  (popc|clz).<bits32>                                      d:u32, a                     integer
  bfind{.shiftamt}.<int32_64>                              d:u32, a                     integer
  fns.b32                                                  d, a, b, c:s32               integer
  brev.<bits32>                                            d, a                         integer moves=a
  bfe.<int32_64>                                           d, a, b:u32, c:u32           integer moves=a
  bfi.<bits32>                                             d, a, b, c:u32, e:u32        integer moves=ab
  bmsk.(clamp|wrap).b32                                    d, a, b                      integer
  szext.(clamp|wrap).<int32>                               d, a, b:u32                  integer
  dp4a.<int32>.<int32>                                     d, a:b32, b:b32, c           integer
  dp2a.(lo|hi).<int32>.<int32>                             d, a:b32, b:b32, c           integer

9.7.2 Extended precision
  (add|sub).cc.<int32_64>                                  d, a, b                      integer leaves-carry
  (addc|subc).<int32_64>                                   d, a, b                      integer takes-carry
  (addc|subc).cc.<int32_64>                                d, a, b            integer takes-carry leaves-carry
  mad.(lo|hi).cc.<int32_64>                                d, a, b, c                   integer leaves-carry
  madc.(lo|hi).<int32_64>                                  d, a, b, c                   integer takes-carry
  madc.(lo|hi).cc.<int32_64>                               d, a, b, c         integer takes-carry leaves-carry

9.7.3 Floating point, 9.7.4 half precision
  testp.(finite|infinite|number|notanumber|normal|subnormal).<float>
                                                           d:pred, a
  copysign.<float>                                         d, a, b
  (add|sub){.<round>}{.ftz}{.sat}.f32                      d, a, b                      add
  (add|sub){.<round>}.f64                                  d, a, b                      add
  (add|sub){.rn}{.ftz}{.sat}.<half>                        d, a, b                      add
  mul{.<round>}{.ftz}{.sat}.f32                            d, a, b                      mul
  mul{.<round>}.f64                                        d, a, b                      mul
  mul{.rn}{.ftz}{.sat}.<half>                              d, a, b                      mul
  (fma|mad).<round>{.ftz}{.sat}.f32                        d, a, b, c                   fma
  (fma|mad).<round>.f64                                    d, a, b, c                   fma
  fma.rn{.ftz}{.sat}.<half>                                d, a, b, c                   fma
  fma.rn{.ftz}.relu.<half>                                 d, a, b, c                   fma
  fma.rn{.relu}.<bfloat>                                   d, a, b, c                   fma
  div.(approx|full|<round>){.ftz}.f32                      d, a, b                      other
  div.<round>.f64                                          d, a, b                      other
  (rcp|sqrt).(approx|<round>){.ftz}.f32                    d, a                         other
  (rcp|sqrt).<round>.f64                                   d, a                         other
  rcp.approx.ftz.f64                                       d, a                         other
  rsqrt.approx{.ftz}.<float>                               d, a                         other
  (sin|cos|lg2|ex2).approx{.ftz}.f32                       d, a                         other
  tanh.approx.f32                                          d, a                         other
  (ex2|tanh).approx.<half>                                 d, a                         other
  (abs|neg){.ftz}.(f32|<half>)                             d, a
  (abs|neg).(f64|<bfloat>)                                 d, a
  (min|max){.ftz}{.NaN}.(f32|<half>)                       d, a, b                      minmax
  (min|max).f64                                            d, a, b                      minmax
  (min|max){.NaN}.<bfloat>                                 d, a, b                      minmax

9.7.6 Comparison and selection, 9.7.7 of half precision
  set.(<compare>|<unsigned_compare>){.<bool>}.(u32|s32|f32|f16).<unsigned>
                                                           d:t2, a, b{, c:pred}         integer
  set.<compare>{.<bool>}.(u32|s32|f32|f16).<signed>        d:t2, a, b{, c:pred}         integer
  set.(eq|ne){.<bool>}.(u32|s32|f32|f16).<bits>            d:t2, a, b{, c:pred}         integer
  set.(<compare>|<unordered>){.<bool>}.(u32|s32|f32|f16).f64
                                                           d:t2, a, b{, c:pred}
  set.(<compare>|<unordered>){.<bool>}{.ftz}.(u32|s32|f32|f16).f32
                                                           d:t2, a, b{, c:pred}
  set.(<compare>|<unordered>){.<bool>}{.ftz}.(f16|<int16_32>).f16
                                                           d:t2, a, b{, c:pred}
  set.(<compare>|<unordered>){.<bool>}{.ftz}.(f16x2|<int32>).f16x2
                                                           d:t2, a, b{, c:pred}
  setp.(<compare>|<unsigned_compare>){.<bool>}.<unsigned>  d{|p}:pred, a, b{, c:pred}   integer
  setp.<compare>{.<bool>}.<signed>                         d{|p}:pred, a, b{, c:pred}   integer
  setp.(eq|ne){.<bool>}.<bits>                             d{|p}:pred, a, b{, c:pred}   integer
  setp.(<compare>|<unordered>){.<bool>}.f64                d{|p}:pred, a, b{, c:pred}
  setp.(<compare>|<unordered>){.<bool>}{.ftz}.(f32|<half>)
                                                           d{|p}:pred, a, b{, c:pred}
  selp.(<bits>|<int>|<float>)                              d, a, b, c:pred              chooses address=a|b
  slct.(<bits>|<int>|<float>).s32                          d:t2, a:t2, b:t2, c          integer
  slct{.ftz}.(<bits>|<int>|<float>).f32                    d:t2, a:t2, b:t2, c

9.7.8 Logic and shift
  and.<bits>                                               d, a, b               integer bitwise address=a?
  (or|xor).<bits>                                          d, a, b                      integer bitwise
  (and|or|xor).pred                                        d, a, b                      bitwise
  not.<bits>                                               d, a                         integer bitwise
  not.pred                                                 d, a                         bitwise
  cnot.<bits>                                              d, a                         integer
  lop3.b32                                                 d, a, b, c, n:imm            integer
  lop3.(or|and).b32                                        d|p, a, b, c, n:imm, q:pred  integer
  shf.(l|r).(clamp|wrap).b32                               d, a, b, c:u32               integer moves=ab
  (shl|shr).<bits>                                         d, a, b:u32                  integer moves=a
  shr.<int>                                                d, a, b:u32                  integer moves=a

9.7.9 Data movement and conversion
  mov.(pred|<bits>|<int>|<float>)                          d, a                         moves=a address=a
  shfl.sync.!(up|down|bfly|idx).b32                        d{|p}, a, b, c, m            warp moves=a
  prmt.b32{.(f4e|b4e|rc8|ecl|ecr|rc16)}                    d, a, b, c                   integer moves=ab
  ld{.weak}{.<space>}{.(<load_cache>|<evict>)}{.<hint>}{.<prefetch>}{.<vec>}.<data>
                                                           d, [a]{, h:b64}              load wide
  ld{.<space>}.volatile{.<space>}{.<prefetch>}{.<vec>}.<data>
                                                           d, [a]                       load wide waits
  ld{.<space>}.relaxed.<scope>{.<space>}{.<evict>}{.<hint>}{.<prefetch>}{.<vec>}.<data>
                                                           d, [a]{, h:b64}              load wide waits
  ld{.<space>}.acquire.<scope>{.<space>}{.<evict>}{.<hint>}{.<prefetch>}{.<vec>}.<data>
                                                           d, [a]{, h:b64}              load wide waits orders
  ld.mmio{.relaxed}.sys{.global}.<data>                    d, [a]                       load wide waits
  ld.global{.<load_cache>}.nc{.<evict>}{.<hint>}{.<prefetch>}{.<vec>}.<data>
                                                           d, [a]{, h:b64}              load wide
  ldu{.global}{.<vec>}.<data>                              d, [a]                       load wide
  st{.weak}{.<space>}{.(<store_cache>|<evict>)}{.<hint>}{.<vec>}.<data>
                                                           [a], b{, h:b64}              store wide
  st{.<space>}.volatile{.<space>}{.<vec>}.<data>           [a], b                       store wide
  st{.<space>}.relaxed.<scope>{.<space>}{.<evict>}{.<hint>}{.<vec>}.<data>
                                                           [a], b{, h:b64}              store wide
  st{.<space>}.release.<scope>{.<space>}{.<evict>}{.<hint>}{.<vec>}.<data>
                                                           [a], b{, h:b64}              store wide orders
  st.mmio{.relaxed}.sys{.global}.<data>                    [a], b                       store wide
  prefetch{.(global|local)}.(L1|L2)                        [a]                          nothing
  prefetch.global.L2::(evict_last|evict_normal)            [a]                          nothing
  prefetchu.L1                                             [a]                          nothing
  applypriority{.global}.L2::evict_normal                  [a], n:imm                   nothing
  discard{.global}.L2                                      [a], n:imm                   nothing
  createpolicy.fractional.<priority>{.L2::(evict_first|evict_unchanged)}.b64
                                                           d{, a:f32}
  createpolicy.range{.global}.<priority>{.L2::(evict_first|evict_unchanged)}.b64
                                                           d, [a], b:u32, c:u32
  createpolicy.cvt.L2.b64                                  d, a
  isspacep.<space>                                         d:pred, a:u64
  cvta{.to}.<space>.(u32|u64)                              d, a                         address=a
  mapa{.shared::cluster}.(u32|u64)                         d, a, b:u32                  integer own
  getctarank{.shared::cluster}.(u32|u64)                   d:u32, a                     integer own
  st.async{.weak}{.<to_tile>}.<counted>{.<vec>}.<sent>     [d], b, [m]                  copy async bulk
  red.async.relaxed.cluster{.<to_tile>}.<counted>.!(add|min|max).(u32|s32)
                                                           [d], b, [m]                  copy async bulk
  red.async.relaxed.cluster{.<to_tile>}.<counted>.!(inc|dec).u32
                                                           [d], b, [m]                  copy async bulk
  red.async.relaxed.cluster{.<to_tile>}.<counted>.!(and|or|xor).b32
                                                           [d], b, [m]                  copy async bulk
  red.async.relaxed.cluster{.<to_tile>}.<counted>.!add.(u64|s64)
                                                           [d], b, [m]                  copy async bulk
  cvt.<integer>.<integer>                                  d:t2, a                      wide moves=a address=a?
  cvt.sat.<integer>.<integer>                              d:t2, a                      wide
  cvt.<round>{.ftz}{.sat}.f32.<integer>                    d:t2, a                      wide
  cvt.<round>{.sat}.(f16|f64).<integer>                    d:t2, a                      wide
  cvt.<round_to_integer>{.ftz}{.sat}.<integer>.f32         d:t2, a                      wide
  cvt.<round_to_integer>{.sat}.<integer>.(f16|f64)         d:t2, a                      wide
  cvt{.<round_to_integer>}{.ftz}{.sat}.f32.f32             d:t2, a                      wide
  cvt{.<round_to_integer>}{.sat}.(f16.f16|f64.f64)         d:t2, a                      wide
  cvt{.ftz}{.sat}.(f32.f16|f64.f32)                        d:t2, a                      wide
  cvt{.sat}.f64.f16                                        d:t2, a                      wide
  cvt.<round>{.ftz}{.sat}.(f16.f32|f32.f64)                d:t2, a                      wide
  cvt.<round>{.sat}.f16.f64                                d:t2, a                      wide
  cvt.f32.bf16                                             d:t2, a                      wide
  cvt.(rn|rz){.relu}{.satfinite}.bf16.f32                  d:t2, a                      wide
  cvt.(rn|rz).relu{.satfinite}.f16.f32                     d:t2, a                      wide
  cvt.(rn|rz).satfinite.f16.f32                            d:t2, a                      wide
  cvt.(rn|rz){.relu}{.satfinite}.(f16x2|bf16x2).f32        d:t2, a, b                   wide
  cvt.rna{.satfinite}.tf32.f32                             d:b32, a                     wide
  cp.async.(ca|cg).shared{::cta}.global{.<prefetch>}       [d], [a], n:imm{, b:ignore}  copy async
  cp.async.(ca|cg).shared{::cta}.global.L2::cache_hint{.<prefetch>}
                                                           [d], [a], n:imm, h:b64       copy async
  cp.async.bulk.<to_tile>.global.<counted>{.<multicast>}{.<hint>}
                                                           [d], [a], b:u32, [m]{, k:u16}{, h:b64}  copy async bulk
  cp.async.bulk.shared::cluster.shared::cta.<counted>      [d], [a], b:u32, [m]         copy async bulk
  cp.async.bulk.global.shared::cta.bulk_group{.<hint>}     [d], [a], b:u32{, h:b64}     copy async bulk
  cp.reduce.async.bulk.global.shared::cta.bulk_group{.<hint>}.!add.(u32|s32|u64|f32|f64|noftz.f16|noftz.bf16)
                                                           [d], [a], b:u32{, h:b64}     copy async bulk
  cp.reduce.async.bulk.global.shared::cta.bulk_group{.<hint>}.!(min|max).(<int32_64>|f16|bf16)
                                                           [d], [a], b:u32{, h:b64}     copy async bulk
  cp.reduce.async.bulk.global.shared::cta.bulk_group{.<hint>}.!(and|or|xor).<bits32>
                                                           [d], [a], b:u32{, h:b64}     copy async bulk
  cp.reduce.async.bulk.global.shared::cta.bulk_group{.<hint>}.!(inc|dec).u32
                                                           [d], [a], b:u32{, h:b64}     copy async bulk
  cp.async.bulk.prefetch.L2.global{.<hint>}                [a], b:u32{, h:b64}          nothing
  cp.async.bulk.tensor.<rank>.<to_tile>.global{.tile}.<counted>{.<multicast>}{.<hint>}
                                                           [d], [t], [m]{, k:u16}{, h:b64}  copy async bulk
  cp.async.bulk.tensor.(3d|4d|5d).<to_tile>.global.im2col.<counted>{.<multicast>}{.<hint>}
                                                           [d], [t], [m], o:u16{, k:u16}{, h:b64}  copy async bulk
  cp.async.bulk.tensor.<rank>.global.shared::cta{.<stored>}.bulk_group{.<hint>}
                                                           [t], [a]{, h:b64}            copy async bulk
  cp.reduce.async.bulk.tensor.<rank>.global.shared::cta.!<update>{.<stored>}.bulk_group{.<hint>}
                                                           [t], [a]{, h:b64}            copy async bulk
  cp.async.bulk.prefetch.tensor.<rank>.L2.global{.tile}{.<hint>}
                                                           [t]{, h:b64}                 nothing
  cp.async.bulk.prefetch.tensor.(3d|4d|5d).L2.global.im2col{.<hint>}
                                                           [t], o:u16{, h:b64}          nothing
  cp.async.bulk.!commit_group                                                           async bulk
  cp.async.bulk.!wait_group{.read}                         n:imm                        async bulk
  prefetch{.(param|const)}.tensormap                       [a]                          nothing
  cp.async.!commit_group                                                                async
  cp.async.!wait_group                                     n:imm                        async
  cp.async.!wait_all                                                                    async

9.7.10 Textures, 9.7.11 surfaces
  tex{.base}.<geometry>.v4.(u32|s32|f32).f32               d{|p}:t2, [t]                texture
  tex.1d.v4.(u32|s32|f32).s32                              d{|p}:t2, [t]                texture
  tex.level.<geometry>.v4.(u32|s32|f32).f32                d{|p}:t2, [t], a             texture
  tex.grad.<geometry>.v4.(u32|s32|f32).f32                 d{|p}:t2, [t], g, g          texture
  tld4.!(r|g|b|a).2d.v4.(u32|s32|f32).f32                  d{|p}:t2, [t]                texture
  suld.b.<flat>{.<vec>}.(b8|<bits>).<boundary>             d, [t]                       surface wide
  sust.b.<flat>{.<vec>}.(b8|<bits>).<boundary>             [t], b                       surface wide

9.7.12 Control flow
  bra{.uni}                                                label                        branch
  brx.idx{.uni}                                            a:u32, table                 switch
  call{.uni}                                               ...                          call
  ret{.uni}                                                                             return
  exit                                                                                  exit

9.7.13 Synchronisation and communication
  (bar|barrier){.cta}.!sync{.aligned}                      a:u32{, b:u32}               block
  (bar|barrier){.cta}.!arrive{.aligned}                    a:u32, b:u32                 block
  (bar|barrier){.cta}.red.!popc{.aligned}.u32              d, a{, b}, c:pred            block
  (bar|barrier){.cta}.red.!(and|or){.aligned}.pred         d, a:u32{, b:u32}, c         block
  bar.!warp.sync                                           m:b32                        warp
  barrier.cluster.!arrive{.(release|relaxed)}{.aligned}                                 orders
  barrier.cluster.!arrive.aligned.(release|relaxed)                                     orders
  barrier.cluster.!wait{.acquire}{.aligned}                                             cluster orders
  barrier.cluster.!wait.aligned.acquire                                                 cluster orders
  membar.(cta|gl|sys)                                                                   waits orders
  fence{.(sc|acq_rel|acquire|release)}.<scope>                                          waits orders
  fence.mbarrier_init.release.cluster                                                   waits orders
  griddepcontrol.(wait|launch_dependents)                                               nothing
  elect.sync                                               d{|p}:b32, m:b32             warp
  fence.proxy.(alias|async|async.global|async.shared::cta|async.shared::cluster)
                                                                                        waits orders
  atom<order>{.<at>}<order>.!add<order>{.<hint>}.(u32|s32|u64|f32|f64)
                                                           d, [a], b{, h:b64}           atomic waits
  atom<order>{.<at>}<order>.!add<order>{.<hint>}.noftz.<half>
                                                           d, [a], b{, h:b64}           atomic waits
  atom<order>{.<at>}<order>.!(min|max)<order>{.<hint>}.<int32_64>
                                                           d, [a], b{, h:b64}           atomic waits
  atom<order>{.<at>}<order>.!(and|or|xor|exch)<order>{.<hint>}.<bits32>
                                                           d, [a], b{, h:b64}           atomic waits
  atom<order>{.<at>}<order>.!(inc|dec)<order>{.<hint>}.u32
                                                           d, [a], b{, h:b64}           atomic waits
  atom<order>{.<at>}<order>.!cas<order>.<bits>             d, [a], b, c                 atomic waits
  red<order>{.<at>}<order>.!add<order>{.<hint>}.(u32|s32|u64|f32|f64)
                                                           [a], b{, h:b64}              reduction waits
  red<order>{.<at>}<order>.!add<order>{.<hint>}.noftz.<half>
                                                           [a], b{, h:b64}              reduction waits
  red<order>{.<at>}<order>.!(min|max)<order>{.<hint>}.<int32_64>
                                                           [a], b{, h:b64}              reduction waits
  red<order>{.<at>}<order>.!(and|or|xor)<order>{.<hint>}.<bits32>
                                                           [a], b{, h:b64}              reduction waits
  red<order>{.<at>}<order>.!(inc|dec)<order>{.<hint>}.u32
                                                           [a], b{, h:b64}              reduction waits
  vote.sync.!(all|any|uni).pred                            d, a, m:b32                  warp
  vote.sync.!ballot.b32                                    d, a:pred, m                 warp
  match.!any.sync.<bits32>                                 d:b32, a, m:b32              warp
  match.!all.sync.<bits32>                                 d{|p}:b32, a, m:b32          warp
  activemask.b32                                           d                            own
  redux.sync.!(add|min|max).<int32>                        d, a, m                      warp
  redux.sync.!<bool>.b32                                   d, a, m                      warp
  mbarrier.!init{.<shared>}.b64                            [a], b:u32                   async orders
  mbarrier.!inval{.<shared>}.b64                           [a]                          async orders
  mbarrier.!(expect_tx|complete_tx){.(relaxed.cta|relaxed.cluster)}{.<anywhere>}.b64
                                                           [a], b:u32                   async orders
  mbarrier.!(arrive|arrive_drop).expect_tx{.<release>}{.<anywhere>}.b64
                                                           d, [a], b:u32                async orders
  mbarrier.!(arrive|arrive_drop){.<release>}{.<anywhere>}.b64
                                                           d, [a]{, b:u32}              async orders
  mbarrier.!(arrive|arrive_drop).noComplete{.<release>}{.<shared>}.b64
                                                           d, [a], b:u32                async orders
  mbarrier.!test_wait{.<acquire>}{.<shared>}.b64           d:pred, [a], b               async orders waits
  mbarrier.!test_wait.parity{.<acquire>}{.<shared>}.b64    d:pred, [a], b:u32           async orders waits
  mbarrier.!try_wait{.<acquire>}{.<shared>}.b64            d:pred, [a], b{, c:u32}      async orders waits
  mbarrier.!try_wait.parity{.<acquire>}{.<shared>}.b64     d:pred, [a], b:u32{, c:u32}  async orders waits
  mbarrier.!pending_count.b64                              d:u32, a                     async orders
  cp.async.mbarrier.!arrive{.noinc}{.<shared>}.b64         [a]                          async

9.7.14 Matrices
  ldmatrix.sync.aligned.m8n8.(x1|x2|x4){.trans}.shared{::cta}.b16
                                                           d, [a]                       matrix
  stmatrix.sync.aligned.m8n8.(x1|x2|x4){.trans}.shared{::cta}.b16
                                                           [a], b                       matrix
  wmma.load.!(a|b).sync.aligned.(row|col).<wmma>{.<at>}.(f16|bf16|<byte>)
                                                           d, [a]{, s:u32}              matrix
  wmma.load.!(a|b).sync.aligned.(row|col).m16n16k8{.<at>}.tf32
                                                           d, [a]{, s:u32}              matrix
  wmma.load.!(a|b).sync.aligned.(row|col).m8n8k4{.<at>}.f64
                                                           d, [a]{, s:u32}              matrix
  wmma.load.!c.sync.aligned.(row|col).<wmma>{.<at>}.(f16|f32|s32)
                                                           d, [a]{, s:u32}              matrix
  wmma.load.!c.sync.aligned.(row|col).m16n16k8{.<at>}.f32  d, [a]{, s:u32}              matrix
  wmma.load.!c.sync.aligned.(row|col).m8n8k4{.<at>}.f64    d, [a]{, s:u32}              matrix
  wmma.store.!d.sync.aligned.(row|col).<wmma>{.<at>}.(f16|f32|s32)
                                                           [a], d{, s:u32}              matrix
  wmma.store.!d.sync.aligned.(row|col).m16n16k8{.<at>}.f32
                                                           [a], d{, s:u32}              matrix
  wmma.store.!d.sync.aligned.(row|col).m8n8k4{.<at>}.f64   [a], d{, s:u32}              matrix
  wmma.mma.sync.aligned.(row|col).(row|col).<wmma>.(f16|f32).(f16|f32){.satfinite}
                                                           d, a, b, c                   matrix tensor
  wmma.mma.sync.aligned.(row|col).(row|col).<wmma>.f32.bf16.bf16.f32
                                                           d, a, b, c                   matrix tensor
  wmma.mma.sync.aligned.(row|col).(row|col).<wmma>.s32.(s8.s8|u8.u8).s32{.satfinite}
                                                           d, a, b, c                   matrix
  wmma.mma.sync.aligned.(row|col).(row|col).m16n16k8.f32.tf32.tf32.f32
                                                           d, a, b, c                   matrix tensor
  wmma.mma.sync.aligned.(row|col).(row|col).m8n8k4{.rn}.f64.f64.f64.f64{.rn}
                                                           d, a, b, c                   matrix tensor
  mma.sync.aligned.(m16n8k8|m16n8k16).row.col.(f16.f16.f16.f16|f32.f16.f16.f32)
                                                           d, a, b, c                   matrix tensor
  mma.sync.aligned.(m16n8k8|m16n8k16).row.col.f32.bf16.bf16.f32
                                                           d, a, b, c                   matrix tensor
  mma.sync.aligned.(m16n8k4|m16n8k8).row.col.f32.tf32.tf32.f32
                                                           d, a, b, c                   matrix tensor
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64          d, a, b, c                   matrix tensor
  mma.sync.aligned.<mma8>.row.col{.satfinite}.s32.<byte>.<byte>.s32
                                                           d, a, b, c                   matrix

9.7.15 Matrices of four warps
  wgmma.fence.sync.aligned                                                              nothing
  wgmma.!commit_group.sync.aligned                                                      async
  wgmma.!wait_group.sync.aligned                           n:imm                        async
  wgmma.mma_async.sync.aligned.<wgmma16>.(f16|f32).f16.f16
                                                           d, c, a:tile, b:b64, p:pred, s:imm, t:imm, u:imm{, v:imm}  group tensor
  wgmma.mma_async.sync.aligned.<wgmma16>.f32.bf16.bf16
                                                           d, c, a:tile, b:b64, p:pred, s:imm, t:imm, u:imm{, v:imm}  group tensor
  wgmma.mma_async.sync.aligned.<wgmma8>.f32.tf32.tf32      d, c, a:tile, b:b64, p:pred, s:imm, t:imm  group tensor
  wgmma.mma_async.sync.aligned.<wgmma32>.(f16|f32).<float8>.<float8>
                                                           d, c, a:tile, b:b64, p:pred, s:imm, t:imm  group tensor
  wgmma.mma_async.sync.aligned.<wgmma_int>{.satfinite}.s32.<byte>.<byte>{.satfinite}
                                                           d, c, a:tile, b:b64, p:pred  group
  setmaxnreg.!(inc|dec).sync.aligned.u32                   n:imm                        async

9.7.19 Video instructions, 9.7.20 others
  v(add|sub|avrg|absdiff|min|max)(2|4).<int32>.<int32>.<int32>{.(sat|add)}
                                                           d:b32, a:b32, b:b32, c:b32
  trap                                                                                  trap
  nanosleep.u32                                            a                            nothing waits
  pmevent{.mask}                                           n:imm                        nothing
  brkpt                                                                                 nothing

Not PTX: marks, which passes insert (instrument/insert.py)
  bra.(skip|likely)                                        label                        branch mark
  (note|bump|runtime|turn|suspend|apart)                   ...                          mark
  hold.<data>                                              ...                          mark
  pause{.(<space>|generic)}                                ...                          mark
  (enter|leave)                                            ...                          own mark
  runtime.if                                               ...                          mark
  slice                                                    d:u32, n:imm{, m:imm}        mark
  fetch                                                    d, n:imm                     mark
  peek.<data>                                              d, a:u64                     mark
  poke.<data>                                              a:u64, b                     mark
  locate                                                   d:u64, n:imm, m:imm          mark
  surface.(ld|st).<flat>.<boundary>                        d:u64, [t], n:imm            mark
  check.assigned                                           ...                          mark
  check.(bounds|held).(<space>|generic)                    ...                          mark
  check.access{.set}{.cas.<bits>}.(<space>|generic)        ...                          mark
  count.enter                                              d:u64, n:imm, a:u64          mark
  count.word{.(<space>|generic)}                           ...                          mark
  count.lane                                               ...                          mark
  step.(line|var)                                          ...                          mark
  record{.(base|b8|b16|b32|b64|pred)}                                            ...                          mark
  record.at.(<space>|generic)                              ...                          mark
"""
