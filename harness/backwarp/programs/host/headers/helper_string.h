// Command lines as NVIDIA's samples write them: -name or --name=value.
#pragma once
#include <cstdlib>
#include <cstdio>
#include <cstring>
#include <string>
#ifndef EXIT_WAIVED
#define EXIT_WAIVED 2
#endif
#ifndef STRCASECMP
#define STRCASECMP strcasecmp
#define STRNCASECMP strncasecmp
#endif
static inline const char* backwarp_option(int argc, const char** argv, const char* name) {
    for (int i = 1; i < argc; i++) {
        const char* at = argv[i] + strspn(argv[i], "-");
        size_t n = strlen(name);
        if (at != argv[i] && !strncasecmp(at, name, n) && (!at[n] || at[n] == '=')) return at + n + (at[n] == '=');
    }
    return nullptr;
}
static inline bool checkCmdLineFlag(int argc, const char** argv, const char* name) { return backwarp_option(argc, argv, name); }
static inline int getCmdLineArgumentInt(int argc, const char** argv, const char* name) { auto v = backwarp_option(argc, argv, name); return v ? atoi(v) : 0; }
static inline float getCmdLineArgumentFloat(int argc, const char** argv, const char* name) { auto v = backwarp_option(argc, argv, name); return v ? (float)atof(v) : 0; }
static inline bool getCmdLineArgumentString(int argc, const char** argv, const char* name, char** to) { *to = (char*)backwarp_option(argc, argv, name); return *to; }
static inline char* sdkFindFilePath(const char* name, const char*) {
    for (const char* folder : {"", "data/"})
        if (FILE* f = fopen((std::string(folder) + name).c_str(), "rb")) { fclose(f); return strdup((std::string(folder) + name).c_str()); }
    return nullptr;
}
