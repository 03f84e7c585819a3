import { signal } from '@preact/signals'
import type { ApprovalPolicy } from '../../protocol/wire/admin/approval-policy.ts'
import { readAdmin } from '../state/api.ts'
import { mayAct } from '../state/session.ts'
import type { Act } from './act.ts'

type Row = ApprovalPolicy['actions'][number]

/** The gateway's own table: nothing of it is repeated here. Empty until it has been read. */
const rows = signal<ReadonlyMap<string, Row>>(new Map())

/** Who signs in next may be another person, and the gateway may have been started with other settings. */
export async function readPolicy(signal: AbortSignal): Promise<void> {
  const { actions } = await readAdmin<ApprovalPolicy>('/v1/admin/approval-policy', signal)
  rows.value = new Map(actions.map((row) => [row.action, row]))
}

interface RequiredInputs {
  readonly reason: boolean
  readonly typed: string | null
  readonly approver: boolean
}

const rowsOf = (actions: readonly string[]): readonly Row[] => actions.flatMap((action) => rows.value.get(action) ?? [])

/** False also for what this gateway does not serve. */
export function mayDo(...actions: readonly string[]): boolean {
  const found = rowsOf(actions)
  return found.length === actions.length && found.every((row) => mayAct(row.required_role))
}

export const needsApprover = (action: string): boolean =>
  rows.value.get(action)?.current_enforcement.includes('second_approver') ?? false

/** What a person must bring to all calls of an act. */
export function askedFor({ actions, confirm }: Act): RequiredInputs {
  const found = rowsOf(actions)
  return {
    reason: found.some((row) => row.reason_required),
    typed: found.find((row) => row.typed_confirmation !== null)?.typed_confirmation ?? confirm ?? null,
    approver: actions.some(needsApprover),
  }
}
