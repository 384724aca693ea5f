/* The notation of tool calls that a checkpoint's chat template writes, and so its model.
 *
 *   TOOL_FORM_XML (Qwen3-Coder)                    TOOL_FORM_JSON (Qwen3, Qwen2.5)
 *   <tool_call>                                    <tool_call>
 *   <function=NAME>                                {"name": "NAME", "arguments": {"KEY": VALUE}}
 *   <parameter=KEY>                                </tool_call>
 *   VALUE
 *   </parameter>
 *   </function>
 *   </tool_call>
 */
#ifndef KAIJU_TEXT_TOOL_FORM_H
#define KAIJU_TEXT_TOOL_FORM_H

#include "text/chat.h"

enum tool_form { TOOL_FORM_NONE, TOOL_FORM_JSON, TOOL_FORM_XML };

/* Renders a conversation with a call and looks how it is written. TOOL_FORM_NONE: the template writes no calls (or in a
 * notation that is not known). */
enum tool_form tool_form_of(const struct chat_template *chat);

#endif
