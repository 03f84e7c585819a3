import { Type } from '@sinclair/typebox'
import { wei } from './shapes.ts'

/** What an account has. */
export const balanceFields = {
  balance_wei: wei,
  reserved_wei: wei,
  available_wei: wei,
  reserved_includes_leases: Type.Optional(
    Type.Literal(true, {
      description:
        'What is reserved includes money that a gateway may reserve for requests and has not yet, because that gateway did not say how much it has',
    }),
  ),
}
