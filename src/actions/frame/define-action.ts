import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Caller } from '../../actors/accounts/access.ts'
import type { AuditContext } from '../../actors/audit/audit-context.ts'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import type { AdminRole } from '../../machines/rules/admin-route.ts'
import type { Precondition } from '../../precondition.ts'
import { ReasonBody } from '../../protocol/wire/admin/admin.ts'
import type { ActionCommand } from './command.ts'
import type { ActionForm } from './form.ts'
import { type ParamsOf, paramsOf } from './params.ts'
import { change, type Named, type Place, type Policy } from './policy.ts'
import type { Views } from './views.ts'

/** What an action has while it runs in the gateway: the checked call, and on whose word it comes. */
export interface ActionContext<B = unknown, P = Readonly<Record<string, string>>> {
  readonly gateway: GatewayHandle
  readonly views: Views
  readonly audit: AuditContext
  readonly role: AdminRole
  readonly caller: Caller
  readonly params: P
  readonly body: B
  /** What the caller says of the row as it has read it (`If-Match`). */
  readonly precondition: () => Precondition | null
  /** Head of the answer; the status is the action's own unless it is set. */
  readonly head: { status: number; readonly headers: Record<string, string> }
  /** The caller has left. */
  readonly signal: AbortSignal
  /** Work that takes longer than a connection may be silent. */
  readonly lifted: <T>(work: () => Promise<T>) => Promise<T>
}

interface Spec<N extends string, P extends string, B extends TSchema, R extends TSchema> {
  readonly name: N
  readonly at: Place<P>
  readonly policy: Policy
  /** For the OpenAPI document. */
  readonly summary: string
  readonly description?: string
  readonly tag: string
  /** Absent: a reason alone, which a DELETE takes in a header. */
  readonly body?: B
  /** No body at all is `{}`. */
  readonly mayBeEmpty?: true
  /** Absent: the action answers nothing (204). */
  readonly result?: R
  /** The first is the usual one. */
  readonly statuses?: readonly number[]
  /** Its answer names the row by an ETag, and the caller may name the one that it has read; `row or none`: there may be none. */
  readonly etag?: 'row' | 'row or none'
  readonly run: (context: ActionContext<Static<B>, ParamsOf<P>>) => Promise<Static<R>>
  readonly command?: ActionCommand<Static<R>>
  readonly form?: ActionForm
}

/** Something that an operator can do: a row of the approval policy, and all that follows from it. */
export interface Action<N extends string = string> extends Named<N> {
  readonly summary: string
  readonly description: string | undefined
  readonly tag: string
  readonly params: TObject | null
  /** null: the route reads none, and the reason travels in a header. */
  readonly body: TObject | null
  /** Whether the gateway may ask for a second admin. */
  readonly approved: boolean
  readonly mayBeEmpty: boolean
  readonly result: TSchema | null
  readonly statuses: readonly number[]
  readonly etag: 'row' | 'row or none' | undefined
  readonly run: (context: ActionContext<never, never>) => Promise<unknown>
  readonly cli: ActionCommand<never> | null
  readonly form: ActionForm | null
}

/**
 * From this one definition come the route, its part of the OpenAPI document, its row of the approval policy, its audit
 * events, the command and the form of the console. A file imports values from the shared words alone: command line
 * and console read it, too, and what runs in the gateway has the rest from its context.
 */
export function defineAction<
  const N extends string,
  const P extends string,
  B extends TSchema = typeof ReasonBody,
  R extends TSchema = TSchema,
>(spec: Spec<N, P, B, R>): Action<N> {
  const row = change(spec.name, spec.at, spec.policy)
  const body = spec.body ?? (row.method === 'DELETE' ? null : ReasonBody)
  return {
    ...row,
    summary: spec.summary,
    description: spec.description,
    tag: spec.tag,
    params: paramsOf(row.path),
    body: body as TObject | null,
    approved: row.productionRequirement.endsWith('second_approver'),
    mayBeEmpty: spec.mayBeEmpty ?? spec.body === undefined,
    result: spec.result ?? null,
    statuses: spec.statuses ?? [spec.result === undefined ? 204 : 200],
    etag: spec.etag,
    run: spec.run as Action['run'],
    cli: (spec.command ?? null) as Action['cli'],
    form: spec.form ?? null,
  }
}
