import { type Pull, PullList, pullsKeptMax } from '../../protocol/wire/nodes/pulls.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'
import { pullFailureWords } from '../frame/pull-words.ts'
import { nodeOperand } from '../nodes/node.ts'

const sizeOf = (bytes: number | null) => (bytes === null ? null : `${(bytes / 1e9).toFixed(2)} GB`)
const share = ({ bytes_done: done, bytes_total: total }: Pull) =>
  total === null || total === 0 ? null : `${Math.floor((100 * done) / total)} %`

export const pullList = defineList({
  name: 'node.pull.list',
  at: 'GET /v1/admin/nodes/:node_id/pulls',
  role: 'operator',
  category: 'node_control',
  summary: 'List the models that the agent of a node fetches, or has fetched since it started',
  tag: 'Nodes (extension)',
  query: { limit: limitOf(pullsKeptMax, pullsKeptMax) },
  result: PullList,
  rows: 'pulls',
  read: async ({ gateway, params, query: { limit } }) =>
    (await gateway.nodePulls.list(params.node_id)).slice(0, limit).map((pull) => ({ ...pull })),
  command: {
    words: 'models pulls',
    after: 'pull',
    about: 'List the models that a node fetches, or has fetched since its agent started',
    operands: [nodeOperand],
    columns: [
      ['PULL', ({ pull_id: id }) => id],
      ['MODEL', ({ model }) => model],
      ['STATE', ({ state }) => state],
      ['DONE', share],
      ['SIZE', ({ bytes_total: bytes }) => sizeOf(bytes)],
      ['MEMORY', ({ memory_mb: mb }) => (mb === null ? null : `${mb} MiB`)],
      ['WHY', ({ failure }) => (failure === null ? null : pullFailureWords(failure))],
    ],
    empty: 'The agent of this node fetches nothing, and has fetched nothing since it started.',
  },
})
