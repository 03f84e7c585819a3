import OpenAI from 'openai'

/** A client's program, to be run on the machine of the gateway: one JSON line for each thing that it did. */
const [baseURL, apiKey = '', model = ''] = process.argv.slice(2)
const client = new OpenAI({ baseURL: baseURL ?? '', apiKey, maxRetries: 0 })
const messages = [{ role: 'user', content: 'hello' }] as const
const tell = (did: object) => process.stdout.write(`${JSON.stringify(did)}\n`)

const answer = await client.chat.completions.create({ model, messages: [...messages] })
tell({ did: 'chat', text: answer.choices[0]?.message.content ?? '', usage: answer.usage })

let text = ''
let pieces = 0
let finish: string | null = null
for await (const chunk of await client.chat.completions.create({ model, messages: [...messages], stream: true })) {
  const [choice] = chunk.choices
  if (choice?.delta.content != null && choice.delta.content !== '') {
    pieces++
    text += choice.delta.content
  }
  finish = choice?.finish_reason ?? finish
}
tell({ did: 'stream', text, pieces, finish })

let seen = 0
const stream = await client.chat.completions.create({ model, messages: [...messages], stream: true })
for await (const chunk of stream) {
  if (chunk.choices[0]?.delta.content && ++seen === 3) stream.controller.abort()
}
tell({ did: 'cancel', seen })
