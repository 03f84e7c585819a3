import type { Compared } from './requests.ts'

/** One value of an answer: what the server itself says, and what comes through the gateway; undefined: it is not there. */
export interface Difference {
  readonly compared: Compared
  readonly place: string
  readonly direct: string
  readonly through: string | undefined
  /** Of both answers. */
  readonly statuses: readonly [direct: string, through: string]
}

interface Documented {
  /** How its row of docs/compatibility.md begins. */
  readonly row: string
  covers(difference: Difference): boolean
}

const ends = (place: string, ...names: readonly string[]) => names.includes(place.split('.').at(-1) ?? '')
const on = ({ compared }: Difference, path: string) => compared.path === path
const asksForTimes = ({ compared: { body } }: Difference) => body.timings_per_token === true
/** Both refuse it, or the gateway alone. */
const refused = ({ statuses: [, through] }: Difference) => through === '400'

/** All that may differ, as docs/compatibility.md tells it. Whatever else does is a fault of the gateway. */
export const documentedDifferences: readonly Documented[] = [
  {
    row: 'Ids, times and the model’s name',
    covers: ({ place }) =>
      ends(place, 'id', 'created', 'created_at', 'completed_at', 'model', 'item_id') ||
      /^(?:timings|prompt_progress)\..*_(?:ms|second)$/.test(place),
  },
  { row: '`system_fingerprint`', covers: ({ place }) => ends(place, 'system_fingerprint') },
  { row: '`__verbose`', covers: ({ place }) => place.startsWith('__verbose.') },
  {
    row: '`timings`',
    covers: (difference) => /(?:^|\.)timings\./.test(difference.place) && !asksForTimes(difference),
  },
  {
    row: 'Half a character',
    covers: ({ place, direct, through }) =>
      place === 'choices.0.message.content' && through !== undefined && direct === `${through}\ufffd`,
  },
  {
    row: 'No messages, an unknown role',
    covers: (difference) =>
      refused(difference) &&
      on(difference, '/v1/chat/completions') &&
      difference.statuses[0] === '200' &&
      ['nothing to say', 'a role that is none'].includes(difference.compared.name.split(',')[0] ?? ''),
  },
  {
    row: 'Errors',
    covers: (difference) =>
      refused(difference) && difference.statuses[0] === '400' && difference.place.startsWith('error.'),
  },
  { row: '`encoding_format` of an embedding', covers: ({ place }) => /^data\.\d+\.encoding_format$/.test(place) },
  {
    row: '`object` of a ranking',
    covers: (difference) => on(difference, '/v1/rerank') && difference.place === 'object',
  },
  {
    row: 'Responses that reach their limit',
    covers: (difference) =>
      on(difference, '/v1/responses') &&
      (ends(difference.place, 'status') ||
        difference.place === 'event' ||
        difference.place.startsWith('response.completed.')),
  },
  {
    row: 'The beginning of a stream of Messages',
    covers: (difference) =>
      on(difference, '/v1/messages') &&
      (difference.place === 'event' || difference.place.startsWith('message_start.message.usage.')),
  },
  {
    row: 'Grammars on Messages',
    covers: (difference) => on(difference, '/v1/messages') && difference.compared.name.startsWith('a grammar'),
  },
]
