import { KeyRotate, KeyRotated } from '../../protocol/wire/admin/accounts.ts'
import { isoTime, secondMs } from '../../time.ts'
import { defineAction } from '../frame/define-action.ts'
import { keyOperand, keyPolicy, printedKey, tag } from './key.ts'

export const rotateKey = defineAction({
  name: 'gateway_key.rotate',
  at: 'POST /v1/admin/keys/:key_id/rotate',
  policy: keyPolicy,
  summary: 'Replace a key. The old one keeps working for a while',
  tag,
  body: KeyRotate,
  mayBeEmpty: true,
  result: KeyRotated,
  statuses: [201],
  run: async ({ gateway, views, audit, params, body: { keep_seconds } }) => {
    const keepMs = keep_seconds === undefined ? undefined : keep_seconds * secondMs
    const rotated = await gateway.accounts.by(audit).rotateKey(params.key_id, keepMs)
    return {
      ...views.keyView(rotated.key),
      gateway_key: rotated.gatewayKey,
      old_key_expires_at: isoTime(rotated.oldKeyExpiresAt),
    }
  },
  command: {
    words: 'keys rotate',
    about: 'Replace a key: print a new one, while the old one keeps working for a while',
    operands: [keyOperand],
    options: {
      'keep-seconds': {
        kind: 'number',
        value: 'N',
        min: 0,
        max: 604_800,
        about: 'How long the old key keeps working (default: SVC_KEY_ROTATION_MS, 24 hours)',
      },
    },
    prints: (made, print) =>
      printedKey(made, print, made.old_key_expires_at) + print.once('Gateway key', made.gateway_key),
  },
  form: {
    on: 'key',
    when: { revoked_at: ['null'] },
    verb: 'Rotate',
    title: 'Rotate the key {name}',
    about: 'A new key takes its place. The old one works for a while longer, so that programs can be changed.',
    confirm: '{name}',
    destroys: true,
    labels: {},
    shows: { gateway_key: 'Gateway key' },
    done: 'The key {name} is rotated.',
  },
})
