/* Giving way: who computes for long passes through the kernel now and then.
 *
 * Where a processor is shared, whoever was just woken waits until the thread that computes there enters the kernel or
 * the timer ticks: with lazy preemption, and on virtual machines whose interrupts come late, that is up to 4 ms. A cheap
 * system call every 50 us makes it as many microseconds. `tensorctl doctor` measures what it is here. */
#ifndef TENSORD_PROTO_BASE_BREATH_H
#define TENSORD_PROTO_BASE_BREATH_H

#define TD_BREATH_NS 50000

/* Pass through the kernel, unless this thread did so within TD_BREATH_NS. Takes some 30 ns: call it every few
 * microseconds. */
void td_breathe(void);

/* What this thread does besides, each time that it passes through the kernel there. NULL: nothing. */
void td_breath_use(void (*turn)(void *arg), void *arg);

#endif
