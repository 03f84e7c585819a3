type Camel<S extends string> = S extends `${infer A}_${infer B}` ? `${A}${Capitalize<Camel<B>>}` : S
type CamelMembers<T> = { [K in keyof T as Camel<K & string>]: T[K] }

/** `node_class` → `nodeClass`. A member that the body does not have is not there. */
export const camelMembers = <T extends object>(body: T): CamelMembers<T> =>
  Object.fromEntries(
    Object.entries(body).map(([name, value]) => [
      name.replaceAll(/_(\w)/g, (_, next: string) => next.toUpperCase()),
      value,
    ]),
  ) as CamelMembers<T>
