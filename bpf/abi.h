/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Everything that the BPF programs and user space share, one header for each concept. C reads it here; Rust reads the
 * types from the object's BTF (crates/kernel), and both sides assert sizes.
 */
#ifndef PERF_AGENT_ABI_H
#define PERF_AGENT_ABI_H

#include "abi/control.h"
#include "abi/counters.h"
#include "abi/frame.h"
#include "abi/heap.h"
#include "abi/life.h"
#include "abi/messages.h"
#include "abi/processes.h"
#include "abi/python.h"
#include "abi/raw_stack.h"
#include "abi/sched_stats.h"
#include "abi/sums.h"
#include "abi/tables.h"
#include "abi/value.h"

#endif
