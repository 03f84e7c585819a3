import { parseInstant } from '../../protocol/validation/parse-text.ts'
import { Key, KeyUpdate } from '../../protocol/wire/admin/accounts.ts'
import { defineAction } from '../frame/define-action.ts'
import { camelMembers } from '../frame/members.ts'
import { keyOperand, keyPolicy, printedKey, tag } from './key.ts'

export const updateKey = defineAction({
  name: 'gateway_key.update',
  at: 'PATCH /v1/admin/keys/:key_id',
  policy: keyPolicy,
  summary: 'Change what a key may do',
  description:
    'An omitted field stays as it is. `model_policy_changes` are some fields of the policy, where null takes one away. A revoked key stays as it is. Other gateways know it within 5 s.',
  tag,
  body: KeyUpdate,
  result: Key,
  etag: 'row',
  run: async ({ gateway, views, audit, params, body, precondition }) => {
    const { reason: _, expires_at: end, ...rest } = body
    const changes = {
      ...camelMembers(rest),
      ...(end === undefined ? {} : { expiresAt: parseInstant(end, 'expires_at') }),
    }
    return views.keyView(await gateway.accounts.by(audit).updateKey(params.key_id, changes, precondition()))
  },
  command: {
    words: 'keys set',
    about: 'Change the name or the end of a key',
    operands: [keyOperand],
    options: {
      name: { kind: 'text', value: 'NAME', about: 'The name that lists show' },
      'expires-at': { kind: 'text', value: 'TIME', about: 'When the key expires, e.g. 2027-01-01T00:00:00Z' },
    },
    after: 'list',
    prints: printedKey,
  },
})
