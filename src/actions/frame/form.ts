/**
 * The form of an action in the console, as data. `{name}` stands for a member of the row that it is done to. Reason,
 * typed confirmation and second approver follow from the policy, path and body from the route, fields from the body.
 */
export interface ActionForm {
  /** The kind of row beside which its button stands: `node`. */
  readonly on: string
  /** Only beside rows with one of these values. */
  readonly when?: Readonly<Record<string, readonly string[]>>
  readonly verb: string
  /** `Drain {name}`. */
  readonly title: string
  readonly about: string
  /** To be typed, because it cannot be undone. */
  readonly confirm?: string
  /** Something is gone for good, or refused from now on: its button stands in a menu. */
  readonly destroys?: true
  /** `{name} gets no new work.` */
  readonly done: string
  /** The action that takes it back. */
  readonly undo?: string
  /** What the answer shows only once: a label by its member. */
  readonly shows?: Readonly<Record<string, string>>
  /** What the answer shows, and would show again: a label by its member. */
  readonly reads?: Readonly<Record<string, string>>
  /** The members of the body that are typed, by their labels; the row gives the others. Absent: all are typed. */
  readonly labels?: Readonly<Record<string, string>>
  /** On its button. Absent: the verb. */
  readonly button?: string
}
