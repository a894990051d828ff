package helenus;

/** The application at protocol version 3. */
class V3Test extends ApplicationTest {
  V3Test() {
    super("V3");
  }
}
