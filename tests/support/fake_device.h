/* A device of test builds, "fake:0": memory that this process maps and may not touch, and streams that run what is
 * issued to them later, on threads of their own, with pauses by lot.
 *
 * It proves order, copies and lifetimes. Its kernels are the CPU's, over a second mapping of the memory; an address of
 * the first that anybody else reads or writes ends the process, and so does a stream that uses bytes of another one
 * without an event between them. Who links it has it beside the CPU.
 * With FAKE_DEVICE_AHEAD in the environment a task is begun as soon as all before it in its stream were, as a device
 * does whose queue is filled ahead; else when these have ended. */
#ifndef TENSORD_TESTS_SUPPORT_FAKE_DEVICE_H
#define TENSORD_TESTS_SUPPORT_FAKE_DEVICE_H

#include "daemon/sched/executor.h"
#include "daemon/tensor/device.h"

/* Makes it ready. It has FAKE_DEVICE_MEGABYTES of memory, 1024 where the environment does not say. A loop has one of
 * its own; it ends with td_devices_end(), when all storages are back. FAKE_DEVICE_GROWS names a pipe: an arena of a MiB
 * or more is made when a byte comes through it, and is not had when that is "f". */
int fake_device_start(td_device_entry *out, unsigned number, td_error *e);
extern const td_device_kind fake_device_kind; /* one: fake:0 */

/* While its executor is shut nothing begins. */
void fake_executor_gate(td_executor *x, bool shut);
/* The device fails under the next that runs. In a daemon: under the N-th, by FAKE_DEVICE_BREAKS=N in the environment.
 */
void fake_executor_break(td_executor *x);
/* From now on events between streams are forgotten, and uses that nothing orders are counted. */
void fake_executor_lose_events(td_executor *x);
int fake_executor_unordered(td_executor *x);
/* Tasks that are issued and have not ended; how many of them wait for nothing but streams. */
int fake_executor_issued(td_executor *x);
int fake_executor_free_to_go(td_executor *x);
/* Of an address on the device: where its kernels find the bytes, for tests that run all by themselves. */
void *fake_device_bytes(void *at);

#endif
