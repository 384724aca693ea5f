void kaiju_link_placeholder(void);
void kaiju_link_placeholder(void) {}
