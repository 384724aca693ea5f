void kaiju_sched_placeholder(void);
void kaiju_sched_placeholder(void) {}
