void kaiju_compute_placeholder(void);
void kaiju_compute_placeholder(void) {}
