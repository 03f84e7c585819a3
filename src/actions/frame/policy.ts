import type { AdminRole, AdminRoute, Category, CommandAction, TargetType } from '../../machines/rules/admin-route.ts'

/** A row of the approval policy whose name the compiler knows. */
export type Named<N extends string> = AdminRoute & { readonly action: N }

/** A read, which only needs its role. */
export const read = <N extends string>(action: N, role: AdminRole, category: Category, path: string): Named<N> => ({
  action,
  method: 'GET',
  path,
  role,
  category,
  targetType: null,
  command: null,
  reasonRequired: false,
  typedConfirmation: null,
  dryRun: false,
  productionRequirement: 'role_token',
})

/** A read that leaves an approval event: an export of a customer's data. */
export const exported = <N extends string>(action: N, path: string): Named<N> => ({
  ...read(action, 'operator', 'data_export', path),
  targetType: 'customer',
  productionRequirement: 'reason',
})

/** What a change asks of its caller. By default it should have a reason. */
export interface Policy {
  readonly role: AdminRole
  readonly category: Category
  /** The target of its approval event. null: it changes nothing, and leaves none. */
  readonly target: TargetType | null
  /** The action of its command event, if it sends a command to a node. */
  readonly command?: CommandAction
  readonly reasonRequired?: false
  /** To be typed, word for word. */
  readonly typedConfirmation?: string
  readonly dryRun?: true
  readonly requirement?: AdminRoute['productionRequirement']
}

export function change<N extends string>(action: N, place: Place, policy: Policy): Named<N> {
  const [method, path] = place.split(' ') as [AdminRoute['method'], string]
  return {
    ...read(action, policy.role, policy.category, path),
    method,
    targetType: policy.target,
    command: policy.command ?? null,
    reasonRequired: policy.reasonRequired ?? true,
    typedConfirmation: policy.typedConfirmation ?? null,
    dryRun: policy.dryRun ?? false,
    productionRequirement: policy.requirement ?? 'reason',
  }
}

/** A method and the template of a path: `POST /v1/admin/nodes`. */
export type Place<P extends string = string> = `${AdminRoute['method']} ${P}`
