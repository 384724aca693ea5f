void kaiju_stage_placeholder(void);
void kaiju_stage_placeholder(void) {}
