import { Problem } from '../errors.ts'
import { listening } from './listening.ts'
import { ambiguousPath, isCanonical, pathOf, targetFault } from './request-target.ts'

export type Handler = (request: Request) => Response | Promise<Response>

export interface FrontDoorOptions {
  readonly descriptors: { readonly scarce: boolean }
  /** True while this process leaves: each answer then ends its connection, so that the client's next one leads elsewhere. */
  readonly leaving?: () => boolean
  /** Decides while descriptors are scarce whether a request is admitted. It must not throw. */
  readonly isKnown: (request: Request) => boolean
  readonly refuse: (request: Request, problem: Problem) => Response
  /** Why this listener does not take a request; null: it does. */
  readonly fault?: (request: Request) => Problem | null
  /** Paths in which the slashes of a model's id, the first group, may be encoded; absent: none. */
  readonly slashedId?: RegExp
}

/** What stands before all routes of a listener. */
export interface FrontDoor {
  /** For `wrap` of Elysia: which handler takes a request. It costs a request nothing else where nothing is wrong. */
  readonly enter: (next: Handler, request: Request) => Handler
  /** For `adapter` of Elysia, which then listens for canonical paths alone. */
  readonly adapter: ReturnType<typeof listening>
  /** The same for a request that came by no listener. */
  readonly isCanonical: (request: Request) => boolean
  /** Answers a request whose path is not canonical. */
  readonly refuseAmbiguous: (request: Request) => Response | Promise<Response>
}

const scarce = () =>
  new Problem('service_unavailable', { detail: 'Too many connections are open', retryAfterSeconds: 10 })

/** A WebSocket has no answer. */
function closing(response: Response | undefined): Response {
  response?.headers.set('connection', 'close')
  return response as Response
}

export function frontDoor(options: FrontDoorOptions): FrontDoor {
  const {
    descriptors,
    isKnown,
    refuse,
    leaving = () => false,
    fault: unwanted = () => null,
    slashedId = null,
  } = options
  const enter = (next: Handler, request: Request): Handler => {
    const fault = targetFault(request) ?? unwanted(request)
    return fault === null && !descriptors.scarce && !leaving() ? next : guarded(next, fault)
  }
  const guarded = (next: Handler, fault: Problem | null): Handler => {
    const handler: Handler = fault === null ? next : (asked) => refuse(asked, fault)
    if (leaving()) return async (asked) => closing(await handler(asked))
    if (fault !== null || !descriptors.scarce) return handler
    return async (asked) => closing(isKnown(asked) ? await next(asked) : refuse(asked, scarce()))
  }
  const ambiguous: Handler = (asked) => refuse(asked, ambiguousPath())
  const refuseAmbiguous = (request: Request) => enter(ambiguous, request)(request)
  return {
    enter,
    refuseAmbiguous,
    adapter: listening({ slashedId, refuse: refuseAmbiguous }),
    isCanonical: ({ url }) => isCanonical(pathOf(url), slashedId),
  }
}
