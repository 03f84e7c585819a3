/** A chunk as a client sees it; what the tests look at. */
export interface ClientChunk {
  readonly id: string
  readonly object: string
  readonly created: number
  readonly model: string
  readonly choices: readonly {
    readonly index: number
    readonly delta: Readonly<Record<string, unknown>>
    readonly finish_reason: string | null
    readonly logprobs?: object
  }[]
  readonly usage?: {
    readonly prompt_tokens: number
    readonly completion_tokens: number
    readonly total_tokens: number
  }
  readonly svc?: Readonly<Record<string, unknown>>
  readonly error?: {
    readonly message: string
    readonly type: string
    readonly param: string | null
    readonly code: string
    readonly svc: Readonly<Record<string, unknown>>
  }
}

/** Reads an event stream block by block, as it comes over the wire. */
export class EventStreamReader {
  /** Everything read so far. */
  text = ''
  private taken = 0
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>
  private readonly decoder = new TextDecoder()

  constructor(response: Response) {
    if (response.body === null) throw new Error('no body')
    this.reader = response.body.getReader()
  }

  /** The next block without its blank line; null at the end of the stream. */
  async block(): Promise<string | null> {
    for (;;) {
      const end = this.text.indexOf('\n\n', this.taken)
      if (end !== -1) {
        const block = this.text.slice(this.taken, end)
        this.taken = end + 2
        return block
      }
      const { done, value } = await this.reader.read()
      if (done) return null
      this.text += this.decoder.decode(value, { stream: true })
    }
  }

  /** The next chunk; comments are passed over. Throws at `[DONE]` and at the end. */
  async chunk(): Promise<ClientChunk> {
    for (;;) {
      const block = await this.block()
      if (block === null) throw new Error(`the stream ended after ${JSON.stringify(this.text.slice(-200))}`)
      if (!block.startsWith(':')) return JSON.parse(block.slice('data: '.length)) as ClientChunk
    }
  }

  /** All blocks up to the end. */
  async rest(): Promise<readonly string[]> {
    const blocks: string[] = []
    for (let block = await this.block(); block !== null; block = await this.block()) blocks.push(block)
    return blocks
  }

  cancel(): Promise<void> {
    return this.reader.cancel()
  }
}

export interface ReadStream {
  readonly text: string
  readonly blocks: readonly string[]
  readonly chunks: readonly ClientChunk[]
  readonly done: boolean
  /** All `delta.content` together. */
  readonly content: string
  readonly last: ClientChunk
}

/** A whole stream; throws unless every line is one that §6 allows. */
export async function readStream(response: Response): Promise<ReadStream> {
  const reader = new EventStreamReader(response)
  const blocks = await reader.rest()
  const strange = reader.text.split('\n').find((line) => line !== '' && !/^(data: |: )/.test(line))
  if (strange !== undefined) throw new Error(`a line of another kind: ${strange}`)
  if (reader.text !== blocks.map((block) => `${block}\n\n`).join('')) throw new Error('the stream ends in mid-event')
  const data = blocks.filter((block) => !block.startsWith(':')).map((block) => block.slice('data: '.length))
  const done = data.at(-1) === '[DONE]'
  const chunks = data.filter((text) => text !== '[DONE]').map((text) => JSON.parse(text) as ClientChunk)
  const last = chunks.at(-1)
  if (last === undefined) throw new Error('no chunk')
  const content = chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')
  return { text: reader.text, blocks, chunks, done, content, last }
}
