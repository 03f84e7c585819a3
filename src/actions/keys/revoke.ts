import { brand } from '../../brand.ts'
import { Key } from '../../protocol/wire/admin/accounts.ts'
import { defineAction } from '../frame/define-action.ts'
import { keyOperand, keyPolicy, printedKey, tag } from './key.ts'

export const revokeKey = defineAction({
  name: 'gateway_key.revoke',
  at: 'DELETE /v1/admin/keys/:key_id',
  policy: keyPolicy,
  summary: 'Revoke a key',
  description: `The key stops working at once, and within 5 s on other gateways. The reason travels in \`x-${brand}-reason\`.`,
  tag,
  result: Key,
  run: async ({ gateway, views, audit, params }) =>
    views.keyView(await gateway.accounts.by(audit).revokeKey(params.key_id)),
  command: {
    words: 'keys revoke',
    about: 'Revoke a key at once',
    operands: [keyOperand],
    asks: 'Revoke {KEY_ID}? The gateway will refuse everyone who uses it.',
    prints: printedKey,
  },
  form: {
    on: 'key',
    when: { revoked_at: ['null'] },
    verb: 'Revoke',
    title: 'Revoke the key {name}',
    about: 'Programs with this key are refused at once, for good.',
    confirm: '{name}',
    destroys: true,
    done: 'The key {name} is revoked.',
  },
})
