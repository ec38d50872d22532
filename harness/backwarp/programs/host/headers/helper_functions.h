// What programs take from the header of this name in NVIDIA's samples: timers, options, images and comparisons.
#pragma once
#include <helper_image.h>
#include <helper_string.h>
#include <helper_timer.h>
