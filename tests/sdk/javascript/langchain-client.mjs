// `ChatOpenAI` of `@langchain/openai`, by chat and by Responses. Prints what came as JSON.
import { tool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { z } from 'zod'

const look = tool(() => 'sunny', { name: 'look', description: 'Looks.', schema: z.object({ fake: z.boolean() }) })
const echo = z.object({ echo: z.string() })

const told = {}
for (const [name, useResponsesApi] of [
  ['chat', false],
  ['responses', true],
]) {
  const model = new ChatOpenAI({
    model: 'm',
    apiKey: process.env.KEY,
    configuration: { baseURL: `${process.env.URL}/v1` },
    useResponsesApi,
    maxRetries: 0,
  })
  told[name] = (await model.invoke('hello there')).text
  const pieces = []
  for await (const chunk of await model.stream('hello there')) pieces.push(chunk.text)
  told[`${name}_stream`] = pieces.join('')
  told[`${name}_tool`] = (await model.bindTools([look]).invoke('hello there')).tool_calls.map((call) => call.name)
  told[`${name}_structured`] = (
    await model.withStructuredOutput(echo, { method: 'jsonSchema' }).invoke('hello there')
  ).echo
}
const wrong = new ChatOpenAI({
  model: 'm',
  apiKey: `${process.env.KEY}x`,
  configuration: { baseURL: `${process.env.URL}/v1` },
  maxRetries: 0,
})
told.wrong_key = await wrong.invoke('hello there').then(
  () => null,
  (error) => error.status,
)
console.log(JSON.stringify(told))
