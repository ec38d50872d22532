// What programs take from the header of this name in NVIDIA's samples: images (PGM, PPM), files of numbers and comparisons.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <type_traits>
#include <vector>
/// kind: 5 grey, 6 colours. Of pixels of floating-point numbers 1 is white.
template <class T> bool backwarp_load_image(const char* file, int kind, int channels, T** data, unsigned* w, unsigned* h) {
    std::ifstream in(file, std::ios::binary);
    std::string word, numbers[4];
    for (int i = 0; i < 4 && in >> word;) if (word[0] == '#') std::getline(in, word); else numbers[i++] = word;
    *w = (unsigned)atoi(numbers[1].c_str()); *h = (unsigned)atoi(numbers[2].c_str());
    size_t n = (size_t)*w * *h, stored = kind == 6 ? 3 : 1;
    in.get();  // one space
    if (numbers[0] != "P" + std::to_string(kind) || n > 1u << 28) return false;
    std::vector<unsigned char> bytes(n * stored);
    if (!in.read((char*)bytes.data(), bytes.size())) return false;
    if (!*data) *data = (T*)malloc(n * channels * sizeof(T));
    for (size_t i = 0; i < n; i++) for (int k = 0; k < channels; k++) {
        unsigned char v = k < (int)stored ? bytes[i * stored + k] : 0;
        (*data)[i * channels + k] = std::is_floating_point<T>::value ? T(v / 255.) : T(v);
    }
    return true;
}
template <class T> bool backwarp_save_image(const char* file, int kind, int channels, const T* data, unsigned w, unsigned h) {
    std::ofstream out(file, std::ios::binary);
    out << "P" << kind << "\n" << w << "\n" << h << "\n255\n";
    for (size_t i = 0; i < (size_t)w * h; i++) for (int c = 0; c < (kind == 6 ? 3 : 1); c++) {
        double v = data[i * channels + c] * (std::is_floating_point<T>::value ? 255. : 1.);
        out.put((char)(unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v));
    }
    return (bool)out;
}
template <class T> bool sdkLoadPGM(const char* file, T** data, unsigned* w, unsigned* h) { return backwarp_load_image(file, 5, 1, data, w, h); }
template <class T> bool sdkSavePGM(const char* file, T* data, unsigned w, unsigned h) { return backwarp_save_image(file, 5, 1, data, w, h); }
static inline bool sdkLoadPPM4ub(const char* file, unsigned char** data, unsigned* w, unsigned* h) { return backwarp_load_image(file, 6, 4, data, w, h); }
static inline bool sdkSavePPM4ub(const char* file, unsigned char* data, unsigned w, unsigned h) { return backwarp_save_image(file, 6, 4, data, w, h); }
template <class T, class S> bool sdkWriteFile(const char* file, const T* data, unsigned n, const S epsilon, bool, bool append = false) {
    std::ofstream out(file, append ? std::ios::app : std::ios::trunc);
    if (!append) out << "# " << epsilon << "\n";
    for (unsigned i = 0; i < n; i++) out << data[i] << ' ';
    return (bool)out;
}
template <class T> bool sdkReadFile(const char* file, T** data, unsigned* n, bool) {
    std::ifstream in(file);
    std::vector<T> found;
    std::string first;
    if (in.peek() == '#') std::getline(in, first);
    for (T v; in >> v;) found.push_back(v);
    if (found.empty()) return false;
    if (!*data) *data = (T*)malloc(found.size() * sizeof(T));
    std::copy(found.begin(), found.end(), *data);
    *n = (unsigned)found.size();
    return true;
}
template <class T> bool backwarp_near(const T* reference, const T* data, unsigned n, double most, float share) {
    unsigned far = 0;
    for (unsigned i = 0; i < n; i++) far += std::abs((double)reference[i] - (double)data[i]) > most;
    return far <= share * n;
}
template <class T, class S> bool compareData(const T* reference, const T* data, unsigned n, S most, float share) { return backwarp_near(reference, data, n, most, share); }
template <class T, class S> bool compareDataAsFloatThreshold(const T* reference, const T* data, unsigned n, S most, float share) { return backwarp_near(reference, data, n, most, share); }
template <class T, class S> bool compareDataAsFloat(const T* reference, const T* data, unsigned n, S most) { return backwarp_near(reference, data, n, most, 0); }
static inline bool sdkCompareL2fe(const float* reference, const float* data, unsigned n, float most) {
    double error = 0, sum = 0;
    for (unsigned i = 0; i < n; i++) { double d = (double)reference[i] - data[i]; error += d * d; sum += (double)reference[i] * reference[i]; }
    return std::sqrt(error) <= most * std::sqrt(sum);
}
