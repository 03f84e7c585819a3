import { Explanation } from '../../../protocol/wire/admin/explanation.ts'
import { text } from '../../../protocol/wire/query.ts'
import { report } from '../../reports/report.ts'
import { explanationOf, knownOf } from '../../views/own.ts'

const request_id = text(
  '^req_[0-9A-Z]{26}$',
  'the `x-request-id` of a request: req_ and 26 digits or capital letters',
  'The `x-request-id` of a chat request',
)

/** Why this node, and why not the others (§23). */
export const explanation = report({
  action: 'explain.read',
  tag: 'Nodes (extension)',
  summary: 'Explain why a request went to its node',
  description: 'Each process of this gateway remembers its last 10 000 requests.',
  query: { request_id },
  response: Explanation,
  read: async ({ gateway }, { query, role }) => knownOf(await explanationOf(gateway, query.request_id, role)),
})
