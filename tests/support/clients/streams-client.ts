import OpenAI from 'openai'

/**
 * A client's program: streams at one node at once. Writes `opened` when each has had its first text, and at the end, as the
 * one thing on standard error, a JSON line with how each ended: its finish reason, or the code of its error.
 */
const [baseURL = '', apiKey = '', model = '', nodeId = '', count = '1'] = process.argv.slice(2)
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 })
const all = Number(count)
let opened = 0

async function stream(): Promise<string> {
  let finish = 'none'
  let begun = false
  try {
    const chunks = await client.chat.completions.create(
      { model, messages: [{ role: 'user', content: 'hello' }], stream: true },
      { query: { node_id: nodeId } },
    )
    for await (const { choices } of chunks) {
      if (!begun && choices[0]?.delta.content) {
        begun = true
        if (++opened === all) process.stdout.write('opened\n')
      }
      finish = choices[0]?.finish_reason ?? finish
    }
    return finish
  } catch (error) {
    return String((error as { code?: unknown }).code)
  }
}

const ends = await Promise.all(Array.from({ length: all }, stream))
process.stderr.write(`${JSON.stringify({ ends })}\n`)
