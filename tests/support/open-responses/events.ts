import { type TObject, type TProperties, Type } from '@sinclair/typebox'
import { faultsOf, Item, Part, Probability, ResponseResource, text, whole } from './response.ts'

/** The events of a stream of Open Responses that a gateway without tools and summaries of its own can send, written anew. */
const place = { item_id: text, output_index: whole }
const spoken = { ...place, content_index: whole }
const item = { output_index: whole, item: Type.Union([Item, Type.Null()]) }
const part = { ...spoken, part: Part }
const response = { response: ResponseResource }
const logprobs = Type.Optional(Type.Array(Probability))

const members: Readonly<Record<string, TProperties>> = {
  'response.created': response,
  'response.in_progress': response,
  'response.completed': response,
  'response.failed': response,
  'response.incomplete': response,
  'response.output_item.added': item,
  'response.output_item.done': item,
  'response.content_part.added': part,
  'response.content_part.done': part,
  'response.output_text.delta': { ...spoken, delta: text, logprobs },
  'response.output_text.done': { ...spoken, text, logprobs },
  'response.function_call_arguments.delta': { ...place, delta: text },
  'response.function_call_arguments.done': { ...place, arguments: text },
}
const schemas = new Map<string, TObject>(
  Object.entries(members).map(([type, own]) => [
    type,
    Type.Object({ type: Type.Literal(type), sequence_number: whole, ...own }),
  ]),
)

export interface StreamedEvent {
  readonly type: string
  readonly sequence_number: number
  readonly item?: { readonly type: string }
  readonly response?: Readonly<Record<string, unknown>>
}

/** The events of a stream, whose `event:` lines name their types. */
export function eventsOf(stream: string): readonly StreamedEvent[] {
  const blocks = stream.split('\n\n').filter((block) => block.startsWith('event: '))
  return blocks.map((block) => {
    const [name = '', data = ''] = block.split('\n')
    const event = JSON.parse(data.slice('data: '.length)) as StreamedEvent
    if (name !== `event: ${event.type}`) throw new Error(`${name} holds ${event.type}`)
    return event
  })
}

/** What breaks the schema, by the type of its event. */
export const eventFaults = (events: readonly StreamedEvent[]): readonly string[] =>
  events.flatMap((event) => {
    const schema = schemas.get(event.type)
    if (schema === undefined) return [`${event.type}: no such event`]
    return faultsOf(schema, event).map((fault) => `${event.type}${fault}`)
  })
