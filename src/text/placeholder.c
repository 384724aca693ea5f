void kaiju_text_placeholder(void);
void kaiju_text_placeholder(void) {}
