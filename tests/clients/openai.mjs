import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { questions, run, url } from "./scenarios.mjs";

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const user = (content) => [{ role: "user", content }];
const tool = { name: questions.tool, description: questions.description, parameters: questions.parameters };
const tools = [{ type: "function", function: tool }];

await run({
  async chat() {
    const answer = await client.chat.completions.create({ model: "m", messages: user("Hello") });
    return { text: answer.choices[0].message.content, reason: answer.choices[0].finish_reason, usage: answer.usage };
  },
  async stream() {
    const stream = client.chat.completions.stream({ model: "m", messages: user("Hello"), stream_options: { include_usage: true } });
    let text = "";
    stream.on("content", (delta) => (text += delta));
    const final = await stream.finalChatCompletion();
    return { text, final: final.choices[0].message.content, usage: final.usage };
  },
  async abort() {
    const stream = await client.chat.completions.create({ model: "m", messages: user(questions.slowly), stream: true });
    let chunks = 0;
    for await (const chunk of stream) if (chunk.choices.length && ++chunks > 2) break;
    return { chunks };
  },
  async tools() {
    const asked = [];
    const runner = client.chat.completions.runTools({
      model: "m",
      messages: user(questions.towns),
      stream: true,
      tools: [{ type: "function", function: { ...tool, parse: JSON.parse, function: (input) => (asked.push(input), questions.result) } }],
    });
    return { text: await runner.finalContent(), asked };
  },
  async logprobs() {
    const answer = await client.chat.completions.create({ model: "m", messages: user("Hello"), logprobs: true, top_logprobs: 2 });
    const entries = answer.choices[0].logprobs.content;
    return { text: Buffer.from(entries.flatMap((entry) => entry.bytes)).toString(), tops: entries.map((entry) => entry.top_logprobs.length) };
  },
  async completions() {
    return { text: (await client.completions.create({ model: "m", prompt: "Hello", max_tokens: 100 })).choices[0].text };
  },
  async "structured output"() {
    const form = z.object({ name: z.string(), born: z.number().int(), fields: z.array(z.string()) });
    const answer = await client.chat.completions.parse({
      model: "m",
      messages: user(questions.person),
      response_format: zodResponseFormat(form, "person"),
    });
    return answer.choices[0].message.parsed;
  },
  errors: () => client.chat.completions.create({ model: "m", messages: user("x"), temperature: -1 }),
  async models() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    return ids;
  },
  async responses() {
    const answer = await client.responses.create({ model: "m", input: "Hello" });
    return { text: answer.output_text, status: answer.status };
  },
  async "responses stream"() {
    const stream = client.responses.stream({ model: "m", input: questions.weather, tools: [{ type: "function", strict: false, ...tool }] });
    const kinds = [];
    for await (const event of stream) if (kinds.at(-1) !== event.type) kinds.push(event.type);
    const first = await stream.finalResponse();
    const call = first.output.find((item) => item.type === "function_call");
    const second = await client.responses.create({
      model: "m",
      previous_response_id: first.id,
      input: [{ type: "function_call_output", call_id: call.call_id, output: questions.result }],
      tools: [{ type: "function", strict: false, ...tool }],
    });
    return { kinds, name: call.name, input: JSON.parse(call.arguments), text: second.output_text };
  },
});
