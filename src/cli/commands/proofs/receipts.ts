import { foreignJson } from '../../../protocol/json/foreign-json.ts'
import { parseCheckpoint, parseLogProof } from '../../../protocol/log/checkpoint.ts'
import { parseNote } from '../../../protocol/log/note.ts'
import type { CustomerReceipt } from '../../../protocol/wire/money/receipt.ts'
import { action, type Verb } from '../../frame/action.ts'
import { UsageFault } from '../../frame/failure.ts'
import { givenText } from '../../frame/given-text.ts'
import type { Session } from '../../frame/session.ts'
import { askedPromise } from './asked-promise.ts'
import { growthTo } from './growth.ts'
import { openKnownLogs } from './known-logs.ts'

interface Shown {
  readonly salt?: string | undefined
  readonly request?: string | undefined
  readonly response?: string | undefined
  readonly model?: string | undefined
}

async function jsonGiven(session: Session, option: string, given: string | undefined): Promise<unknown> {
  if (given === undefined) return undefined
  const value = foreignJson(await givenText(session, option, given))
  if (value === undefined) throw new UsageFault(`--${option} is not JSON`)
  return value
}

/** null: the customer shows nothing but the receipt. */
async function openedBy(session: Session, { salt, request, response, model }: Shown): Promise<object | null> {
  if (salt === undefined) {
    if ((request ?? response ?? model) !== undefined) throw new UsageFault('What you show needs the --salt, too')
    return null
  }
  return {
    salt,
    request: await jsonGiven(session, 'request', request),
    response: await jsonGiven(session, 'response', response),
    upstream_model: model,
  }
}

const exported = action({
  about:
    'Print one file with all that `verify receipt` needs: the facts, their signature, their place in the log, and how the log grew',
  operands: [{ name: 'HASH', about: 'The receipt hash that came with an answer' }],
  options: {
    salt: {
      kind: 'text',
      value: 'BASE64URL',
      about: 'svc.receipt_salt of the answer. Who has the file can then see what you show below',
    },
    request: { kind: 'text', value: '@FILE', about: 'The request as you sent it, to show what was asked' },
    response: { kind: 'text', value: '@FILE', about: 'The whole answer as you got it, to show what was answered' },
    model: { kind: 'text', value: 'NAME', about: 'The node’s own name for the model, to show which one was asked' },
  },
  run: async ({ operands, options }, session) => {
    const gateway = session.gateway()
    const receipt = await gateway.customer<CustomerReceipt>(
      `/v1/billing/receipts/${encodeURIComponent(operands[0] ?? '')}`,
    )
    const note = parseLogProof(receipt.log?.log_proof ?? '')?.note
    const now = parseCheckpoint(parseNote(note ?? '')?.text ?? '')
    const seen = now === null ? [] : openKnownLogs(session.env).remembered(now.origin)
    const growth = now === null ? {} : await growthTo(gateway, seen, now)
    const opened = await openedBy(session, options)
    session.show(true, { ...receipt, ...(opened === null ? {} : { opened }), ...growth }, () => '')
    return undefined
  },
})

export const receipts: Verb = {
  name: 'receipts',
  about: 'Export receipts of your own requests, and what became of their promises, as files that prove themselves',
  actions: { export: exported, promise: askedPromise },
}
