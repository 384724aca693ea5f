void kaiju_model_placeholder(void);
void kaiju_model_placeholder(void) {}
