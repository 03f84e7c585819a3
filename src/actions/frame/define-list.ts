import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import type { AdminRole, Category } from '../../machines/rules/admin-route.ts'
import type { QueryParameters, QueryValues } from '../../protocol/wire/query.ts'
import type { Cell, OperandSpec, OptionSpec, Printer } from './command.ts'
import type { ParamsOf } from './params.ts'
import { type Named, read } from './policy.ts'
import type { Views } from './views.ts'

/** What a list has while it is read in the gateway. */
export interface ListContext<Q extends QueryParameters = QueryParameters, P = Readonly<Record<string, string>>> {
  readonly gateway: GatewayHandle
  readonly views: Views
  readonly role: AdminRole
  readonly params: P
  readonly query: QueryValues<Q>
  /** The time of this answer, Unix ms. */
  readonly nowMs: number
}

/** A column of the table in a terminal: its head, and the cell of a row. */
export type Column<R> = readonly [head: string, cell: (row: R, print: Printer) => Cell]

/** `is`: the parameter of the query, where it has another name. */
export type ListOption = OptionSpec & { readonly is?: string }

/** The command of a list. `customer_id` in its path is the option `--customer`; every other part is an operand. */
export interface ListCommand<A, R> {
  /** `keys list`. */
  readonly words: string
  /** Absent: the summary. */
  readonly about?: string
  readonly operands?: readonly OperandSpec[]
  /** Absent: one for each parameter of the query. Without one for `limit` the command asks for as many rows as there may be. */
  readonly options?: Readonly<Record<string, ListOption>>
  /** The command behind which it stands in the help. Absent: behind all. */
  readonly after?: string
  readonly columns: readonly Column<R>[] | ((rows: readonly R[], print: Printer) => string)
  /** Printed where there is no row. */
  readonly empty: string
  /** Printed below the table. */
  readonly note?: (answer: A) => string
}

/** The members of a wire schema that are lists of rows. */
type RowsIn<S extends TObject> = {
  [K in keyof Static<S>]: Static<S>[K] extends readonly object[] ? K : never
}[keyof Static<S>] &
  string
type RowOf<A, M extends keyof A> = A[M] extends readonly (infer R)[] ? R : never
type Rows<A, M extends keyof A> = readonly RowOf<A, M>[]

interface Spec<N extends string, P extends string, Q extends QueryParameters, S extends TObject, M extends RowsIn<S>> {
  readonly name: N
  readonly at: `GET ${P}`
  readonly role: AdminRole
  readonly category: Category
  /** For the OpenAPI document. */
  readonly summary: string
  readonly description?: string
  readonly tag: string
  readonly query: Q
  /** `object`, `generated_at`, `count`, then what else the answer says, and the rows. */
  readonly result: S
  /** The member of the answer that holds the rows. */
  readonly rows: M
  readonly read: (context: ListContext<Q, ParamsOf<P>>) => Promise<Rows<Static<S>, M>>
  /** What the answer says beside its rows. */
  readonly beside?: (gateway: GatewayHandle, views: Views) => Omit<Static<S>, M | 'object' | 'generated_at' | 'count'>
  readonly command?: ListCommand<Static<S>, RowOf<Static<S>, M>>
}

/** Something that operators can list: a row of the approval policy, and all that follows from it. */
export interface List<N extends string = string> extends Named<N> {
  readonly summary: string
  readonly description: string | undefined
  readonly tag: string
  readonly query: QueryParameters
  readonly result: TObject
  readonly rows: string
  /** The members of a row that are one value each: the columns of the CSV. */
  readonly cells: readonly string[]
  readonly read: (context: ListContext<never, never>) => Promise<readonly object[]>
  readonly beside: ((gateway: GatewayHandle, views: Views) => object) | null
  readonly cli: ListCommand<never, never> | null
}

const isCell = ({ type, anyOf, const: word }: TSchema): boolean =>
  Array.isArray(anyOf) ? anyOf.every(isCell) : word !== undefined || !['object', 'array', undefined].includes(type)

/** What a row says about itself means nothing to a reader of a table. */
const notForReaders = ['object', 'etag']

const cellsOf = (row: TObject): readonly string[] =>
  Object.entries(row.properties).flatMap(([name, schema]) =>
    !notForReaders.includes(name) && isCell(schema) ? [name] : [],
  )

/**
 * From this one definition come the route with its CSV, its part of the OpenAPI document, its row of the approval policy
 * and the command. As in an action, a file imports values from the shared words alone.
 */
export function defineList<
  const N extends string,
  const P extends string,
  const Q extends QueryParameters,
  S extends TObject,
  const M extends RowsIn<S>,
>(spec: Spec<N, P, Q, S, M>): List<N> {
  return {
    ...read(spec.name, spec.role, spec.category, spec.at.slice('GET '.length)),
    summary: spec.summary,
    description: spec.description,
    tag: spec.tag,
    query: spec.query,
    result: spec.result,
    rows: spec.rows,
    cells: cellsOf(spec.result.properties[spec.rows]?.items as TObject),
    read: spec.read as unknown as List['read'],
    beside: spec.beside ?? null,
    cli: (spec.command ?? null) as List['cli'],
  }
}
