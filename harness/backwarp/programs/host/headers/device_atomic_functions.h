// For kernels; the host needs nothing of it.
#pragma once
