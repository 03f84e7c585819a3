import type { PullFailure } from '../../../protocol/wire/nodes/pulls.ts'

/** Why a pull ends before its model is there. */
export class PullFault extends Error {
  override readonly name = 'PullFault'
  constructor(
    readonly failure: PullFailure,
    options?: ErrorOptions,
  ) {
    super(failure, options)
  }
}
