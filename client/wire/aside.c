/* Stepping aside: what a program holds while it runs (an interpreter's lock) is put down before a thread waits.
 *
 * Whoever waits for a client's lock or for the daemon has stepped aside before, and takes up again what it put down
 * only after it has given up the client's lock. So a thread that holds the interpreter may always wait for a client's
 * lock: its holder needs nothing but time. A thread that forks never steps aside: the interpreter's lock is what makes
 * its fork safe. */
#include "client/wire/internal.h"

static void *(*put_down)(void);
static void (*take_up)(void *);
static _Thread_local struct {
    bool away, stays;
    void *state;
} self __attribute__((tls_model("initial-exec")));

TD_API void td_set_wait_hooks(void *(*leave)(void), void (*come_back)(void *state))
{
    put_down = leave;
    take_up = come_back;
}

void td_step_aside(void)
{
    if (!put_down || self.away || self.stays) return;
    self.state = put_down();
    self.away = true;
}

void td_step_back(void)
{
    if (!self.away) return;
    self.away = false;
    take_up(self.state);
}

void td_stay(bool on)
{
    self.stays = on;
}

void td_stand_back(td_client *c)
{
    if (!c->fork.under_way || self.stays) return;
    c->threads.blocked++; /* before anybody else may run, and disconnect */
    c->threads.waiting++;
    td_step_aside();
    while (c->fork.under_way) pthread_cond_wait(&c->wake, &c->lock);
    c->threads.waiting--;
    c->threads.blocked--;
}

void td_lock(td_client *c)
{
    if (pthread_mutex_trylock(&c->lock)) {
        c->threads.blocked++;
        td_step_aside();
        pthread_mutex_lock(&c->lock);
        c->threads.blocked--;
    }
    td_stand_back(c);
}

void td_unlock(td_client *c)
{
    bool last = c->ended && c->handles == 0 && c->threads.asleep == 0 && c->threads.blocked == 0;
    pthread_mutex_unlock(&c->lock);
    td_step_back();
    if (last) td_client_free(c);
}
