/* Devices have numbers, and numbers have names: "cpu", "cuda:0". Which of them a daemon has, it says itself. */
#ifndef TENSORD_PROTO_BASE_DEVICE_H
#define TENSORD_PROTO_BASE_DEVICE_H

#include "proto/base/status.h"

/* "?" for what is no device. */
const char *td_device_name(unsigned device);
/* The number that a name stands for; the index may be left out where it is 0. -1: it is no such name. */
int td_device_number(const char *name);
/* Fails: there is no such device, and these there are (a bit for each number). */
int td_device_absent(unsigned device, uint32_t there, td_error *e);

#endif
