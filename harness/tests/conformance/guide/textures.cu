// Textures and surfaces: CUDA C++ Programming Guide. 0, 1, 2, 3: cudaAddressModeWrap, Clamp, Mirror, Border.

//# Texture functions

//: tex1Dfetch of linear memory <- linear(np.float32([2, 3, 5, 7])) = np.where(t < 4, np.resize([2, 3, 5, 7], 32), 0)
TEST(float, fetched, cudaTextureObject_t line) { out[t] = tex1Dfetch<float>(line, t); }

//: tex1Dfetch of int4 and char2 <- linear(np.arange(128, dtype='i4'), 4), linear(np.arange(-32, 32).astype('i1'), 2) = 4 * t + 2 + 2 * t - 31
TEST(int, fetched_vectors, cudaTextureObject_t fours, cudaTextureObject_t pairs) {
    out[t] = tex1Dfetch<int4>(fours, t).z + tex1Dfetch<char2>(pairs, t).y;
}

//: tex1D, clamped <- texture(np.arange(8, dtype='f4')) = np.clip(t - 4, 0, 7)
TEST(float, line, cudaTextureObject_t line) { out[t] = tex1D<float>(line, t - 4 + 0.5f); }

//: tex2D of a CUDA array <- texture(np.arange(32, dtype='f4').reshape(4, 8)) = t
TEST(float, point, cudaTextureObject_t image) { out[t] = tex2D<float>(image, t % 8, t / 8); }

//: tex2D of pitched memory <- linear(np.arange(64, dtype='f4'), height=4) = 16 * (t // 8) + t % 8
TEST(float, pitched, cudaTextureObject_t image) { out[t] = tex2D<float>(image, t % 8, t / 8); }

//: tex3D <- texture(np.arange(32, dtype='i4').reshape(2, 4, 4)) = t
TEST(int, volume, cudaTextureObject_t image) { out[t] = tex3D<int>(image, t % 4, t / 4 % 4, t / 16); }

//: tex1DLayered and tex2DLayered <- texture(np.arange(32, dtype='f4').reshape(4, 8), 1), texture(np.arange(32, dtype='f4').reshape(2, 4, 4), 1) = 2 * t
TEST(float, layered, cudaTextureObject_t lines, cudaTextureObject_t images) {
    out[t] = tex1DLayered<float>(lines, t % 8, t / 8) + tex2DLayered<float>(images, t % 4, t / 4 % 4, t / 16);
}

//: cudaFilterModeLinear, with 8 bits of fraction <- texture(np.float32([[0, 256], [512, 768]]), filterMode=1) = np.floor(256 * t / 31 + .5) + 256
TEST(float, bilinear, cudaTextureObject_t image) { out[t] = tex2D<float>(image, 0.5f + t / 31.0f, 1); }

//: cudaAddressModeWrap and cudaAddressModeMirror <- texture(np.arange(8, dtype='i4'), addressModes=(0,), normalizedCoords=1), texture(np.arange(8, dtype='i4'), addressModes=(2,), normalizedCoords=1) = t % 8 + np.where(t // 8 % 2, 7 - t % 8, t % 8)
TEST(int, periodic, cudaTextureObject_t again, cudaTextureObject_t back) {
    out[t] = tex1D<int>(again, (t + 0.5f) / 8) + tex1D<int>(back, (t + 0.5f) / 8);
}

//: cudaAddressModeBorder and its colour <- texture(np.ones(8, 'f4'), addressModes=(3,), borderColors=(-2,)) = np.where((t > 3) & (t < 12), 1, -2)
TEST(float, border, cudaTextureObject_t line) { out[t] = tex1D<float>(line, t - 4); }

//: cudaReadModeNormalizedFloat of bytes <- texture(np.arange(-128, 128, 8).astype('i1'), readMode=1), texture(np.arange(32, dtype='u1'), readMode=1) = np.maximum(np.float32(8 * t - 128) / np.float32(127), -1) + np.float32(t) / np.float32(255)
TEST(float, normalised, cudaTextureObject_t with_sign, cudaTextureObject_t without) { out[t] = tex1D<float>(with_sign, t) + tex1D<float>(without, t); }

//: texels of uchar4, ushort2 and half <- texture(np.arange(128, dtype='u1').reshape(32, 4), vector=True), texture(np.arange(64, dtype='u2').reshape(32, 2), vector=True), texture(np.arange(32, dtype='f2')) = 7 * t + 4
TEST(float, texels, cudaTextureObject_t bytes, cudaTextureObject_t shorts, cudaTextureObject_t halves) {
    out[t] = tex1D<uchar4>(bytes, t).w + tex1D<ushort2>(shorts, t).y + tex1D<float>(halves, t);
}

//: tex2DLod and tex2DGrad of a texture without mipmaps <- texture(np.arange(32, dtype='f4').reshape(4, 8)) = 2 * t
TEST(float, level, cudaTextureObject_t image) {
    float2 d = make_float2(1, 2);
    out[t] = tex2DLod<float>(image, t % 8, t / 8, 3) + tex2DGrad<float>(image, t % 8, t / 8, d, d);
    if (t < 0) out[t] = tex2DLayeredGrad<float>(image, 0, 0, 0, d, d) + tex3DGrad<float>(image, 0, 0, 0, make_float4(1, 2, 3, 4), make_float4(1, 2, 3, 4));
}

//: texCubemap and texCubemapLayered <- texture(np.arange(24, dtype='f4').reshape(6, 2, 2), 4), texture(np.arange(48, dtype='f4').reshape(12, 2, 2), 5) = 2 * (t % 24) + 24
TEST(float, cube_maps, cudaTextureObject_t cube, cudaTextureObject_t cubes) {
    float u = t % 2 - 0.5f, v = t / 2 % 2 - 0.5f;
    float3 to[6] = {{1, -v, -u}, {-1, -v, u}, {u, 1, v}, {u, -1, -v}, {u, -v, 1}, {-u, -v, -1}};
    float3 d = to[t / 4 % 6];
    out[t] = texCubemap<float>(cube, d.x, d.y, d.z) + texCubemapLayered<float>(cubes, 2 * d.x, 2 * d.y, 2 * d.z, 1);
}

//: tex2D that asks whether the texel is resident <- texture(np.arange(32, dtype='f4').reshape(4, 8)) = t + 1
TEST(float, resident, cudaTextureObject_t image) {
    bool there = false;
    float texel = tex2D<float>(image, t % 8, t / 8, &there);
    out[t] = texel + there;
}

//: tex2Dgather <- texture(np.arange(32, dtype='f4').reshape(4, 8), 8) = 1000 * np.array([9, 10, 2, 1] * 8)[t]
TEST(float, gathered, cudaTextureObject_t image) {
    float4 v = tex2Dgather<float4>(image, 2, 1);
    float all[4] = {v.x, v.y, v.z, v.w};
    out[t] = 1000 * all[t % 4];
}

//: a number for a texture object <- np.uint64(1) faults invalid-texture
TEST(float, no_object, cudaTextureObject_t image) { out[t] = tex2D<float>(image, t, 0); }

//# Surface functions

//: surf1Dread and surf1Dwrite <- surface(np.arange(32, dtype='i4')) = 2 * t
TEST(int, own_element, cudaSurfaceObject_t line) {
    surf1Dwrite(2 * surf1Dread<int>(line, 4 * t), line, 4 * t);
    out[t] = surf1Dread<int>(line, 4 * t);
}

//: surf2Dread and surf2Dwrite of float2 <- surface(np.arange(64, dtype='f4').reshape(4, 8, 2), vector=True) = 4 * t + 1
TEST(float, pairs_of_a_surface, cudaSurfaceObject_t image) {
    float2 v;
    surf2Dread(&v, image, 8 * (t % 8), t / 8);
    surf2Dwrite(make_float2(v.y, v.x), image, 8 * (t % 8), t / 8);
    out[t] = v.x + surf2Dread<float2>(image, 8 * (t % 8), t / 8).x;
}

//: surf3Dread, surf1DLayeredread and surf2DLayeredwrite <- surface(np.arange(32, dtype='i4').reshape(2, 4, 4)), surface(np.arange(32, dtype='i4').reshape(4, 8), 1), surface(np.zeros((2, 4, 4), 'u1'), 1) = 2 * t
TEST(int, deep_surfaces, cudaSurfaceObject_t volume, cudaSurfaceObject_t lines, cudaSurfaceObject_t images) {
    int read = surf3Dread<int>(volume, 4 * (t % 4), t / 4 % 4, t / 16);
    surf2DLayeredwrite((unsigned char)read, images, t % 4, t / 4 % 4, t / 16);
    out[t] = surf1DLayeredread<int>(lines, 4 * (t % 8), t / 8) + surf2DLayeredread<unsigned char>(images, t % 4, t / 4 % 4, t / 16);
}

//: elements of 1, 8 and 16 bytes <- surface(np.arange(128, dtype='u4').reshape(32, 4), vector=True) = 4 * t + 1 + 4 * t + 2 + 4 * t
TEST(int, sizes, cudaSurfaceObject_t line) {
    longlong2 whole = surf1Dread<longlong2>(line, 16 * t);
    long long half = surf1Dread<long long>(line, 16 * t + 8);
    surf1Dwrite(whole, line, 16 * t);
    out[t] = int(whole.x >> 32) + int(half) + surf1Dread<unsigned char>(line, 16 * t);
}

//: cudaBoundaryModeZero and cudaBoundaryModeClamp <- surface(np.arange(1, 9, dtype='i2')) = np.where((t > 3) & (t < 12), t - 3, 0) + 10 * np.clip(t - 3, 1, 8)
TEST(int, boundaries, cudaSurfaceObject_t line) {
    surf1Dwrite((short)7, line, 64, cudaBoundaryModeZero);
    out[t] = surf1Dread<short>(line, 2 * (t - 4), cudaBoundaryModeZero) + 10 * surf1Dread<short>(line, 2 * (t - 4), cudaBoundaryModeClamp);
}

//: cudaBoundaryModeTrap <- surface(np.zeros((4, 8), 'f4')) faults out-of-bounds
TEST(float, trapped, cudaSurfaceObject_t image) { surf2Dwrite(1.0f, image, 4 * t, 0); }
