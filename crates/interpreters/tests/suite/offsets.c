/* Compiled, never run: the assembly has each offset as text, as the headers of an installed Python tell it. */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <stddef.h>

#include <frameobject.h>

#if PY_VERSION_HEX >= 0x03090000
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#else
#include "internal/pycore_pystate.h"
#endif
#if PY_VERSION_HEX >= 0x030b0000
#include "internal/pycore_frame.h"
#endif

#define TELL(name, value) __asm__("\n.ascii \"offset " name " %c0\"\n" ::"i"(value))

void
tell(void)
{
	TELL("runtime_interpreters_head", offsetof(_PyRuntimeState, interpreters.head));
	TELL("tstate_next", offsetof(PyThreadState, next));
	TELL("tstate_interp", offsetof(PyThreadState, interp));
	TELL("tstate_thread_id", offsetof(PyThreadState, thread_id));
	TELL("code_first_line", offsetof(PyCodeObject, co_firstlineno));
	TELL("code_filename", offsetof(PyCodeObject, co_filename));
	TELL("str_length", offsetof(PyASCIIObject, length));
	TELL("str_state", offsetof(PyASCIIObject, state));
	TELL("str_ascii_bytes", sizeof(PyASCIIObject));
	TELL("str_wide_bytes", sizeof(PyCompactUnicodeObject));
	TELL("bytes_length", offsetof(PyVarObject, ob_size));
	TELL("bytes_bytes", offsetof(PyBytesObject, ob_sval));
#if PY_VERSION_HEX < 0x030c0000
	TELL("runtime_auto_tss_key", offsetof(_PyRuntimeState, gilstate.autoTSSkey));
	TELL("runtime_tstate_current", offsetof(_PyRuntimeState, gilstate.tstate_current));
#else
#if PY_VERSION_HEX < 0x030f0000
	TELL("runtime_auto_tss_key", offsetof(_PyRuntimeState, autoTSSkey));
#else
	TELL("tstate_base_frame", offsetof(PyThreadState, base_frame));
#endif
	TELL("runtime_tstate_current", 0);
	TELL("code_version", offsetof(PyCodeObject, co_version));
#if PY_VERSION_HEX < 0x030e0000
	TELL("interp_code_counter", offsetof(PyInterpreterState, func_state.next_version));
#else
	TELL("interp_code_counter", offsetof(PyInterpreterState, _code_object_generation));
#endif
#endif
#if PY_VERSION_HEX >= 0x030b0000
	TELL("interp_next", offsetof(PyInterpreterState, next));
	TELL("interp_threads_head", offsetof(PyInterpreterState, threads.head));
	TELL("code_name", offsetof(PyCodeObject, co_qualname));
	TELL("code_first_unit", offsetof(PyCodeObject, co_code_adaptive));
	TELL("frame_previous", offsetof(_PyInterpreterFrame, previous));
#elif PY_VERSION_HEX >= 0x03090000
	TELL("interp_next", offsetof(PyInterpreterState, next));
	TELL("interp_threads_head", offsetof(PyInterpreterState, tstate_head));
#else
	TELL("interp_next", offsetof(struct _is, next));
	TELL("interp_threads_head", offsetof(struct _is, tstate_head));
#endif
#if PY_VERSION_HEX >= 0x030a0000
	TELL("code_line_table", offsetof(PyCodeObject, co_linetable));
#else
	TELL("code_line_table", offsetof(PyCodeObject, co_lnotab));
#endif
#if PY_VERSION_HEX < 0x030b0000
	TELL("tstate_frame", offsetof(PyThreadState, frame));
	TELL("frame_previous", offsetof(PyFrameObject, f_back));
	TELL("frame_code", offsetof(PyFrameObject, f_code));
	TELL("frame_instruction", offsetof(PyFrameObject, f_lasti));
	TELL("frame_bytes", offsetof(PyFrameObject, f_lasti) + sizeof(int));
	TELL("code_name", offsetof(PyCodeObject, co_name));
	TELL("code_first_unit", 0);
#elif PY_VERSION_HEX < 0x030d0000
	TELL("tstate_frame", offsetof(PyThreadState, cframe));
	TELL("cframe_current_frame", offsetof(_PyCFrame, current_frame));
	TELL("cframe_previous", offsetof(_PyCFrame, previous));
	TELL("frame_code", offsetof(_PyInterpreterFrame, f_code));
	TELL("frame_instruction", offsetof(_PyInterpreterFrame, prev_instr));
#if PY_VERSION_HEX < 0x030c0000
	TELL("frame_entry", offsetof(_PyInterpreterFrame, is_entry));
#else
	TELL("frame_entry", offsetof(_PyInterpreterFrame, owner));
#endif
#else
	TELL("tstate_frame", offsetof(PyThreadState, current_frame));
	TELL("frame_code", offsetof(_PyInterpreterFrame, f_executable));
	TELL("frame_instruction", offsetof(_PyInterpreterFrame, instr_ptr));
	TELL("frame_entry", offsetof(_PyInterpreterFrame, owner));
#endif
}
