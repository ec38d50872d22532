// The library of the course ECE408 (libwb): data sets named on the command line, `-i in0.raw,in1.raw -e expected.raw -o out.raw
// -t vector`, read and compared. Files: .raw (numbers of rows and columns, then the numbers), .csv, .tsv, .txt, .ppm and .pgm.
#pragma once
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>
#include <helper_image.h>
using std::string; using std::vector; using std::stringstream; using std::cout; using std::cerr; using std::endl;
typedef float wbReal_t; typedef bool wbBool; typedef char wbChar_t;
enum { wbFalse, wbTrue };
struct wbArg_t { std::vector<std::string> inputs; std::string expected, output, type; };
struct st_wbImage_t { int width, height, channels, pitch; float* data; };
typedef st_wbImage_t* wbImage_t;
#define wbImage_channels 3
#define wbAssert(condition) assert(condition)
#define wbExit() exit(1)
#define wbMalloc(n) malloc(n)
#define wbFree(p) free(p)
template <class... T> BW std::string wbString(const T&... parts) { std::ostringstream s; (s << ... << parts); return s.str(); }

// ---- what is printed: a line for each message, each time and each solution
template <class... T> void backwarp_log(const char* level, const T&... parts) { printf("[%s] %s\n", level, wbString(parts...).c_str()); }
#define wbLog(level, ...) backwarp_log(#level, __VA_ARGS__)
static inline double wbGetTime() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
static inline std::map<std::string, double>& backwarp_times() { static std::map<std::string, double> all; return all; }
template <class... T> void backwarp_start(const T&... parts) { backwarp_times()[wbString(parts...)] = wbGetTime(); }
template <class... T> void backwarp_stop(const char* kind, const T&... parts) {
    auto found = backwarp_times().find(wbString(parts...));
    if (found == backwarp_times().end()) return backwarp_log("ERROR", "wbTime_stop has no wbTime_start with the message: ", parts...);
    printf("[%s] %.3f ms %s\n", kind, 1e3 * (wbGetTime() - found->second), found->first.c_str());
}
#define wbTime_start(kind, ...) backwarp_start(__VA_ARGS__)
#define wbTime_stop(kind, ...) backwarp_stop(#kind, __VA_ARGS__)

// ---- the command line
static inline wbArg_t wbArg_read(int argc, char** argv) {
    wbArg_t found;
    for (int i = 1; i + 1 < argc; i++) {
        if (argv[i][0] != '-') continue;
        std::string value = argv[i + 1], part;
        std::stringstream parts(value);
        switch (argv[i][1]) {
            case 'i': while (std::getline(parts, part, ',')) if (!part.empty()) found.inputs.push_back(part); break;
            case 'e': found.expected = value; break;
            case 'o': found.output = value; break;
            case 't': found.type = value; break;
            default: continue;
        }
        i++;
    }
    return found;
}
static inline void wbArg_delete(wbArg_t) {}
static inline int wbArg_getInputCount(const wbArg_t& a) { return (int)a.inputs.size(); }
static inline char* wbArg_getInputFile(const wbArg_t& a, int i) {
    if (i >= 0 && i < (int)a.inputs.size()) return strdup(a.inputs[i].c_str());
    fprintf(stderr, "there is no input file %d: the program is started with -i and %zu of them\n", i, a.inputs.size());
    exit(1);
}
static inline char* wbArg_getExpectedOutputFile(const wbArg_t& a) { return a.expected.empty() ? nullptr : strdup(a.expected.c_str()); }
static inline char* wbArg_getOutputFile(const wbArg_t& a) { return a.output.empty() ? nullptr : strdup(a.output.c_str()); }
static inline char* wbArg_getType(const wbArg_t& a) { return strdup(a.type.c_str()); }
static inline void wb_init(int*, char***) {}

// ---- images
static inline wbImage_t wbImage_new(int w, int h, int channels, float* data) { return new st_wbImage_t{w, h, channels, w * channels, data}; }
static inline wbImage_t wbImage_new(int w, int h, int channels = wbImage_channels) { return wbImage_new(w, h, channels, (float*)calloc((size_t)w * h * channels, sizeof(float))); }
static inline void wbImage_delete(wbImage_t i) { if (i) { free(i->data); delete i; } }
static inline int wbImage_getWidth(wbImage_t i) { return i->width; }
static inline int wbImage_getHeight(wbImage_t i) { return i->height; }
static inline int wbImage_getChannels(wbImage_t i) { return i->channels; }
static inline int wbImage_getPitch(wbImage_t i) { return i->pitch; }
static inline float* wbImage_getData(wbImage_t i) { return i->data; }
static inline void wbImage_setData(wbImage_t i, float* data) { i->data = data; }

// ---- files
[[noreturn]] static inline void backwarp_unreadable(const char* file, const char* why) { fprintf(stderr, "%s: %s\n", file, why); exit(1); }
static inline std::string backwarp_ending(const std::string& file) { size_t at = file.rfind('.'); return at == std::string::npos ? "" : file.substr(at + 1); }
static inline wbImage_t wbImport(const char* file) {
    float* data = nullptr;
    unsigned w, h;
    for (int channels : {3, 1}) if (file && backwarp_load_image(file, channels == 3 ? 6 : 5, channels, &data, &w, &h)) return wbImage_new(w, h, channels, data);
    backwarp_unreadable(file ? file : "", "this image cannot be read");
}
template <class T> void* backwarp_numbers(const char* file, std::istream& in, int& rows, int& columns) {
    std::string ending = backwarp_ending(file), line, word;
    std::vector<T> found;
    bool raw = ending != "csv" && ending != "tsv";
    rows = 0; columns = 1;
    if (raw) { std::getline(in, line); if (sscanf(line.c_str(), "%d %d", &rows, &columns) < 1) backwarp_unreadable(file, "its first line is no number of rows"); }
    for (; std::getline(in, line); rows += !raw && !line.empty()) {
        for (char& c : line) if (c == ',' || c == '\t') c = ' ';
        std::istringstream words(line);
        for (double v; words >> v;) found.push_back((T)v);
    }
    if (!raw && rows) columns = (int)(found.size() / rows);
    if (rows < 0 || columns < 0 || (size_t)rows * columns > found.size()) backwarp_unreadable(file, "it has fewer numbers than its first line says");
    if (rows == 1) { rows = columns; columns = 1; }
    void* data = malloc((size_t)rows * columns * sizeof(T) + 1);
    memcpy(data, found.data(), (size_t)rows * columns * sizeof(T));
    return data;
}
static inline void* wbImport(const char* file, int* rows, int* columns, const char* type = "Real") {
    std::ifstream in(file ? file : "", std::ios::binary);
    if (!in) backwarp_unreadable(file ? file : "(no file)", "there is no such file, or it cannot be read");
    int r, c;
    void* data;
    if (!strcmp(type, "Text")) {
        std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
        r = (int)text.size(); c = 1;
        data = memcpy(malloc(text.size() + 1), text.c_str(), text.size() + 1);
    } else data = !strcmp(type, "Integer") ? backwarp_numbers<int>(file, in, r, c) : backwarp_numbers<float>(file, in, r, c);
    if (rows) *rows = r;
    if (columns) *columns = c;
    return data;
}
static inline void* wbImport(const char* file, int* rows, const char* type = "Real") { return wbImport(file, rows, (int*)nullptr, type); }
template <class T> void wbExport(const char* file, T* data, int rows, int columns = 1) {
    if (!file) return;
    std::ofstream out(file);
    out << rows;
    if (columns != 1) out << ' ' << columns;
    for (int i = 0; i < rows; i++) for (int j = 0; j < columns; j++) out << (j ? ' ' : '\n') << data[(size_t)i * columns + j];
    out << '\n';
}
static inline void wbExport(const char* file, wbImage_t i) { if (file) backwarp_save_image(file, i->channels == 3 ? 6 : 5, i->channels, i->data, i->width, i->height); }

// ---- the comparison with what is expected: files have two decimals or more
static inline bool backwarp_solution(const std::string& wrong) {
    printf("{\"correctq\": %s, \"message\": \"%s\"}\n", wrong.empty() ? "true" : "false", wrong.empty() ? "The solution is correct" : wrong.c_str());
    return wrong.empty();
}
template <class T> bool backwarp_same(T a, T b) { return !(std::is_floating_point<T>::value ? std::abs((double)a - (double)b) > 0.01 + 1e-3 * std::abs((double)b) || a != a || b != b : a != b); }
template <class T> std::string backwarp_compared(const char* file, const T* data, int rows, int columns, const char* type) {
    int r, c;
    const T* wanted = (const T*)wbImport(file, &r, &c, type);
    if (rows == 1) { rows = columns; columns = 1; }
    if (r != rows || c != columns) return wbString("it has ", rows, " rows and ", columns, " columns, where ", r, " and ", c, " are expected");
    for (int i = 0; i < r * c; i++) if (!backwarp_same(data[i], wanted[i])) return wbString("at row ", i / c, ", column ", i % c, ": ", data[i], ", where ", wanted[i], " is expected");
    return "";
}
static inline wbBool wbSolution(const wbArg_t& a, void* data, int rows, int columns = 1, int = 1) {
    if (a.expected.empty()) return backwarp_solution("there is no expected result: the program is started without -e");
    bool whole = a.type == "integral_vector" || a.type == "histogram", text = a.type == "text";
    if (whole) wbExport(a.output.empty() ? nullptr : a.output.c_str(), (int*)data, rows, columns);
    else if (!text) wbExport(a.output.empty() ? nullptr : a.output.c_str(), (float*)data, rows, columns);
    const char* file = a.expected.c_str();
    if (text) return backwarp_solution(backwarp_compared(file, (const char*)data, rows * columns, 1, "Text"));
    return backwarp_solution(whole ? backwarp_compared(file, (const int*)data, rows, columns, "Integer") : backwarp_compared(file, (const float*)data, rows, columns, "Real"));
}
static inline wbBool wbSolution(const wbArg_t& a, wbImage_t image) {
    if (a.expected.empty()) return backwarp_solution("there is no expected result: the program is started without -e");
    if (!a.output.empty()) wbExport(a.output.c_str(), image);
    wbImage_t wanted = wbImport(a.expected.c_str());
    if (wanted->width != image->width || wanted->height != image->height || wanted->channels != image->channels) return backwarp_solution(wbString("the image has ", image->width, " x ", image->height, " x ", image->channels, " numbers, where ", wanted->width, " x ", wanted->height, " x ", wanted->channels, " are expected"));
    auto shown = [](float v) { return v < 0 ? 0 : v > 1 ? 1 : v; };
    for (int i = 0; i < image->pitch * image->height; i++) if (!backwarp_same(shown(image->data[i]), shown(wanted->data[i]))) return backwarp_solution(wbString("at row ", i / image->pitch, ", column ", i % image->pitch / image->channels, ": ", image->data[i], ", where ", wanted->data[i], " is expected"));
    return backwarp_solution("");
}
