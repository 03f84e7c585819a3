/** A cookie of a sign-in. All of them are `HttpOnly`, live for minutes, and go to the paths of the sign-in alone. */
export interface SignInCookie {
  readonly name: string
  readonly value: string
  readonly path: string
  readonly maxAgeSeconds: number
  /** `Lax`: it comes with a navigation from another site, as the provider's way back is one. */
  readonly sameSite: 'Lax' | 'Strict'
  /** Over https alone. */
  readonly secure: boolean
}

export function setCookie({ name, value, path, maxAgeSeconds, sameSite, secure }: SignInCookie): string {
  const ends = secure ? '; Secure' : ''
  return `${name}=${value}; Path=${path}; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=${sameSite}${ends}`
}

/** The value of a cookie that a browser sent; null: there is none. */
export function cookieOf({ headers }: Request, name: string): string | null {
  const all = (headers.get('cookie') ?? '').split(';').map((pair) => pair.trim())
  const found = all.find((pair) => pair.startsWith(`${name}=`))
  return found === undefined ? null : found.slice(name.length + 1)
}
