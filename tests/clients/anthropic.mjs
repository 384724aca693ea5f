import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";
import { questions, run, url } from "./scenarios.mjs";

const client = new Anthropic({ baseURL: url, apiKey: "none", maxRetries: 0 });
const user = (content) => [{ role: "user", content }];
const common = { model: "m", max_tokens: 500 };
const tools = [{ name: questions.tool, description: questions.description, input_schema: questions.parameters }];

await run({
  async chat() {
    const answer = await client.messages.create({ ...common, system: "Be short.", messages: user("Hello") });
    return { content: answer.content, reason: answer.stop_reason, usage: answer.usage };
  },
  async stream() {
    const stream = client.messages.stream({ ...common, messages: user("Hello") });
    let text = "";
    stream.on("text", (delta) => (text += delta));
    const final = await stream.finalMessage();
    return { text, final: final.content, reason: final.stop_reason, usage: final.usage };
  },
  async tools() {
    const messages = user(questions.towns);
    const first = await client.messages.stream({ ...common, messages, tools }).finalMessage();
    const calls = first.content.filter((block) => block.type === "tool_use");
    messages.push({ role: "assistant", content: first.content });
    messages.push({ role: "user", content: calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: questions.result })) });
    const second = await client.messages.create({ ...common, messages, tools });
    return { reason: first.stop_reason, asked: calls.map((call) => call.input), text: second.content.at(-1).text };
  },
  async "structured output"() {
    const form = z.object({ name: z.string(), born: z.number().int(), fields: z.array(z.string()) });
    const output_config = { format: zodOutputFormat(form) };
    return (await client.messages.parse({ ...common, messages: user(questions.person), output_config })).parsed_output;
  },
  async "count tokens"() {
    const messages = user("Hello");
    const counted = await client.messages.countTokens({ model: "m", messages });
    const answer = await client.messages.create({ ...common, messages });
    return { counted: counted.input_tokens, used: answer.usage };
  },
  errors: () => client.messages.create({ ...common, messages: user("x"), temperature: -1 }),
});
