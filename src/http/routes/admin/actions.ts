import type { AnyElysia } from 'elysia'
import type { Action, ActionContext } from '../../../actions/frame/define-action.ts'
import { type AdminAction, actions } from '../../../actions/registry.ts'
import type { AuditContext } from '../../../actors/audit/audit-context.ts'
import { Problem } from '../../../errors.ts'
import type { AdminCall, AuditedBody } from '../../frame/admin-call.ts'
import type { HttpContext } from '../../frame/context.ts'
import { readsBy } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { type OperatorDoor, operatorDoor } from '../../plugins/admin.ts'
import * as adminViews from '../../views/admin.ts'
import * as alertViews from '../../views/alerts/alerts.ts'
import * as enrollmentViews from '../../views/enrollment.ts'
import * as jobViews from '../../views/job.ts'
import * as joinViews from '../../views/join.ts'
import * as planViews from '../../views/memory-plan.ts'
import * as moneyViews from '../../views/money.ts'
import * as discoveryViews from '../../views/node-discovery.ts'
import * as probeViews from '../../views/node-probe.ts'
import * as nodeViews from '../../views/nodes.ts'
import * as operatorViews from '../../views/operators.ts'
import * as ownViews from '../../views/own.ts'
import * as policyViews from '../../views/policy-preview.ts'

export const views = {
  ...adminViews,
  ...alertViews,
  ...enrollmentViews,
  ...jobViews,
  ...joinViews,
  ...planViews,
  ...moneyViews,
  ...discoveryViews,
  ...probeViews,
  ...nodeViews,
  ...operatorViews,
  ...ownViews,
  ...policyViews,
}

interface Called {
  readonly call: AdminCall
}

/** A checked body, and on whose word it comes. */
type Given = AuditedBody<{ readonly etag?: string | null }>

/** What has a dry run, which needs no confirmation, asks by itself. */
function refuseUnconfirmed(text: string, { confirmation }: AuditContext): void {
  if (confirmation !== null) return
  throw new Problem('confirmation_required', { param: 'confirm', detail: `confirm must be exactly ${text}` })
}

function mount(door: OperatorDoor, context: HttpContext, action: Action): void {
  const { method, path, params, body, result, statuses, summary, description, tag, etag } = action
  const [usual = 200] = statuses
  const read =
    body === null ? {} : readsBy(body, ({ call }: Called) => call.body(body, action.mayBeEmpty), !action.mayBeEmpty)
  door.route(
    method,
    path,
    async (asked) => {
      const { call, actor, request, set } = asked
      const given = body === null ? { body: {}, audit: call.bare() } : (asked.body as Given)
      if (action.typedConfirmation !== null && !action.dryRun) refuseUnconfirmed(action.typedConfirmation, given.audit)
      const head = { status: usual, headers: set.headers as Record<string, string> }
      const answer = await action.run({
        gateway: context.gateway,
        views,
        audit: given.audit,
        role: actor.role,
        caller: actor.caller,
        params: asked.params,
        body: given.body,
        precondition: () => call.precondition(given.body.etag),
        head,
        signal: request.signal,
        lifted: (work) => context.connections.lifted(request, work),
      } satisfies ActionContext<unknown, unknown> as ActionContext<never, never>)
      set.status = head.status
      if (etag !== undefined && result !== null) head.headers.etag = (answer as { readonly etag: string }).etag
      return answer as never
    },
    {
      action: action.action as AdminAction,
      ...(params === null ? {} : { params }),
      ...(result === null ? {} : { response: Object.fromEntries(statuses.map((status) => [status, result])) }),
      ...read,
      detail: describe({
        summary,
        ...(description === undefined ? {} : { description }),
        tags: [tag],
        empty: result === null,
        ...(etag === undefined ? {} : { etag }),
      }),
    },
  )
}

/** A route for everything that an operator can do. */
export function actionRoutes(context: HttpContext): AnyElysia {
  const door = operatorDoor(context)
  for (const action of actions) mount(door, context, action)
  return door
}
