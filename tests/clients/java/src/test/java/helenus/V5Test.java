package helenus;

/** The application at protocol version 5. */
class V5Test extends ApplicationTest {
  V5Test() {
    super("V5");
  }
}
