import { parseInstant } from '../../protocol/validation/parse-text.ts'
import { KeyCreate, KeyIssued } from '../../protocol/wire/admin/accounts.ts'
import { defineAction } from '../frame/define-action.ts'
import { keyPolicy, tag } from './key.ts'

/** The raw key stands in this answer and nowhere else (§4, §23). */
export const issueKey = defineAction({
  name: 'gateway_key.issue',
  at: 'POST /v1/admin/customers/:customer_id/keys',
  policy: keyPolicy,
  summary: 'Issue a gateway key',
  tag,
  body: KeyCreate,
  result: KeyIssued,
  statuses: [201],
  run: async ({ gateway, views, audit, params, body }) => {
    const { key, gatewayKey } = await gateway.accounts.by(audit).issueKey(params.customer_id, {
      name: body.name,
      modelPolicy: body.model_policy ?? null,
      nodeScope: body.node_scope ?? null,
      expiresAt: parseInstant(body.expires_at, 'expires_at'),
    })
    return { ...views.keyView(key), gateway_key: gatewayKey }
  },
})
