// Names of devices for profilers: nothing here looks at them.
#pragma once
#include <nvToolsExt.h>
