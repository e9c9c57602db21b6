/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The processor that this is compiled for. */
#if defined(__TARGET_ARCH_x86)
#include "arch_x86_64.h"
#elif defined(__TARGET_ARCH_arm64)
#include "arch_aarch64.h"
#else
#error "no register layout for this processor: add one beside arch_x86_64.h"
#endif
