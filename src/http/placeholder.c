void kaiju_http_placeholder(void);
void kaiju_http_placeholder(void) {}
