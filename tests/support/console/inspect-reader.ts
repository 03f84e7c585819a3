import type { InspectEvents } from '../../../src/protocol/wire/admin/inspect.ts'
import { EventStreamReader } from '../clients/event-stream.ts'

type Name = keyof InspectEvents

/** Reads `GET /v1/admin/inspect` event by event. */
export class InspectReader {
  private readonly events: EventStreamReader
  /** Read while another name was waited for: how the names interleave is the clock's affair. */
  private readonly waiting = new Map<string, string[]>()

  constructor(private readonly response: Response) {
    this.events = new EventStreamReader(response)
  }

  get status(): number {
    return this.response.status
  }

  get contentType(): string {
    return this.response.headers.get('content-type') ?? ''
  }

  /** Everything read so far. */
  get text(): string {
    return this.events.text
  }

  /** The next event of that name; others wait until they are asked for, comments are passed over. */
  next<E extends Name>(name: E): Promise<InspectEvents[E]> {
    return this.until(`an event ${name}`, name, () => true)
  }

  async until<E extends Name>(
    what: string,
    name: E,
    holds: (data: InspectEvents[E]) => boolean,
  ): Promise<InspectEvents[E]> {
    for (;;) {
      const data = JSON.parse(await this.read(what, name)) as InspectEvents[E]
      if (holds(data)) return data
    }
  }

  private async read(what: string, name: Name): Promise<string> {
    const known = this.waiting.get(name)?.shift()
    if (known !== undefined) return known
    for (;;) {
      const block = await this.events.block()
      if (block === null) throw new Error(`the stream ended before ${what}`)
      const [, event, text] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? []
      if (event === undefined || text === undefined) continue
      if (event === name) return text
      this.waiting.set(event, [...(this.waiting.get(event) ?? []), text])
    }
  }

  async rest(): Promise<string> {
    return (await this.events.rest()).join('\n')
  }

  close(): Promise<void> {
    return this.events.cancel()
  }
}
