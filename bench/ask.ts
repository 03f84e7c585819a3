import type { Message } from './conversations.ts'

const answerWithinMs = 120_000

interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[]
}

/** One streamed chat; throws unless it is answered to its end. */
export async function askStream(
  url: string,
  key: string,
  model: string,
  messages: readonly Message[],
  maxTokens: number,
): Promise<{ readonly text: string; readonly ttftMs: number }> {
  const askedMs = performance.now()
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages, stream: true, max_tokens: maxTokens }),
    signal: AbortSignal.timeout(answerWithinMs),
  })
  if (response.status !== 200 || response.body === null)
    throw new Error(`chat answered ${response.status}: ${await response.text()}`)
  let ttftMs: number | null = null
  let text = ''
  let ended = false
  for await (const payload of payloads(response.body)) {
    ended = payload === '[DONE]'
    const content = ended ? '' : ((JSON.parse(payload) as Chunk).choices?.[0]?.delta?.content ?? '')
    if (content === '') continue
    ttftMs ??= performance.now() - askedMs
    text += content
  }
  if (ttftMs === null || !ended) throw new Error('chat ended early')
  return { text, ttftMs }
}

async function* payloads(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) if (line.startsWith('data: ')) yield line.slice('data: '.length)
  }
}
